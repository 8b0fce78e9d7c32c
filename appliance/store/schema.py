"""The shape of the store and how it came about: named migrations, applied in order and recorded.

It owns every table and column. A step that has been released is never edited; the next change is a new
step at the end. It knows nothing of threads, files or who asks.
"""

from typing import TYPE_CHECKING

from sqlite_utils.migrations import Migrations

from appliance.errors import StoreError

if TYPE_CHECKING:
    from sqlite_utils.db import Database


def m001_sessions_turns_spans(db: "Database") -> None:
    db["sessions"].create(
        {"id": str, "station": str, "opened": str, "closed": str, "reason": str},
        pk="id",
        not_null={"station", "opened"},
    )
    db["turns"].create(
        {
            "session": str,
            "turn": int,
            "state": str,  # open (an answer is under way, or the process died), finished
            "started": str,  # ISO 8601 with offset
            "heard": str,
            "reply": str,
            "spoken": str,
            "interrupted": int,
            "endpoint_ms": float,
            "asr_ms": float,
            "llm_ms": float,
            "tts_ms": float,
            "output_ms": float,
            "language": str,
            "end_reason": str,
            "tokens": int,
            "ttft_ms": float,
            "tokens_per_s": float,
            "starvation_ms": float,
            "barge_in_ms": float,
            "queue_wait_ms": float,
            "speculation_tries": int,
            "speculation_held": int,
            "speculation_wasted_tokens": int,
            "speculation_spoken_tokens": int,
            "speculation_saved_ms": float,
            "skill": str,
            "station": str,
        },
        pk=("session", "turn"),
        foreign_keys=[("session", "sessions", "id")],
        not_null={"state", "started"},
    )
    db["turns"].create_index(["started"])
    db["spans"].create(
        {"session": str, "turn": int, "seq": int, "at_ms": float, "kind": str, "data": str},
        pk=("session", "turn", "seq"),
        foreign_keys=[("session", "sessions", "id")],
    )


def m002_marks(db: "Database") -> None:
    """A person's verdict on a turn ("cut off", "too slow"), for later tuning."""
    db["turns"].add_column("mark", str)


migrations = Migrations("appliance")
for _step in (m001_sessions_turns_spans, m002_marks):
    migrations()(_step)


def migrate(db: "Database") -> None:
    """Bring `db` to this version. Raises StoreError when a newer version has written it."""
    known = {m.name for m in migrations._migrations}
    unknown = [m.name for m in migrations.applied(db) if m.name not in known]
    if unknown:
        raise StoreError(
            f"the store was written by a newer version of the appliance (it knows {unknown[-1]})",
            "update the appliance, or point it at another file with XDG_STATE_HOME or --db",
        )
    if migrations.pending(db):
        migrations.apply(db)
