"""The engine's own look for the end of the first clause agrees with the chunker that cuts it."""

from appliance.conversation.attempt import completes_first_clause
from appliance.speech.chunker import Chunker, ChunkSettings
from appliance.speech.clean import StreamCleaner


def test_it_is_true_once_at_the_piece_that_completes_the_clause() -> None:
    settings = ChunkSettings()
    for answer in (
        "Yes. It is.",
        "**The capital** of France is Paris, of course. It is large.",
        "1. Flour 2. Eggs, milk",
    ):
        pieces = [answer[i : i + 3] for i in range(0, len(answer), 3)]
        completes = completes_first_clause(settings, "en")
        said = [completes(piece) for piece in pieces]
        cleaner, chunker = StreamCleaner(), Chunker(settings)
        clauses = [bool(chunker.feed(cleaner.feed(piece))) for piece in pieces]
        assert said.count(True) == 1
        assert said.index(True) == clauses.index(True)
