"""What the screen costs: voice-to-voice of the demo with and without it, alternating in one run.

    python tests/tui/measure_screen.py [ROUNDS] [TIER]

Each round holds the demo once without and once with the screen on a pseudo-terminal of 120 x 40, in an order
that changes from round to round, and reads the turns' latency from the store. Prints a line a demo; the last
line is one JSON object: medians in ms, and their ratio, paired turn by turn.
"""

import json
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from appliance.store.database import StoreDatabase

DEMO = "from appliance.cli.main import main; main()"


def hold(tier: str, folder: Path, screen: bool) -> dict[int, float]:
    """Turn -> voice-to-voice ms of one demo."""
    db = folder / "demo.db"
    command = [sys.executable, "-c", DEMO, "demo", "--tier", tier, "--db", str(db), "--out", str(folder / "out.wav")]
    env = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(folder)}
    if not screen:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, check=True)
    else:
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        process = subprocess.Popen(
            [*command, "--tui"], stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        seen = b""
        while process.poll() is None:
            if select.select([master], [], [], 0.2)[0]:
                seen = seen[-20_000:] + os.read(master, 65536)
                if b"conversation has ended" in seen:
                    os.write(master, b"q")
                    seen = b""
        os.close(master)
        os.close(slave)
    turns = StoreDatabase(db).turns()
    db.unlink()
    return {t.record.turn: t.record.ms.voice_to_voice for t in turns if t.record.ms is not None}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    tier = sys.argv[2] if len(sys.argv) > 2 else "tiny"
    ratios: list[float] = []
    totals: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for n in range(rounds):
            order = (False, True) if n % 2 == 0 else (True, False)
            held = {screen: hold(tier, Path(folder), screen) for screen in order}
            for screen in order:
                totals[screen] += held[screen].values()
                print(f"round {n + 1} {'with' if screen else 'without'}: {sorted(map(round, held[screen].values()))}")
            ratios += [held[True][t] / held[False][t] for t in held[True].keys() & held[False].keys()]
    print(
        json.dumps(
            {
                "without_ms_p50": round(statistics.median(totals[False])),
                "with_ms_p50": round(statistics.median(totals[True])),
                "ratio_p50": round(statistics.median(ratios), 3),
                "pairs": len(ratios),
            }
        )
    )


if __name__ == "__main__":
    main()
