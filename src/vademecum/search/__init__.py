"""From a question in people's words to ranked hits with provenance, and a receipt of what was looked at."""

from vademecum.index import Include
from vademecum.search.hit import Hit, Place
from vademecum.search.lanes import Lane
from vademecum.search.query import STOP_WORDS, parse_day, parse_query
from vademecum.search.reading import Passage, read_passage
from vademecum.search.recall import Question, Recall, recall, visible_in
from vademecum.search.receipt import Receipt

__all__ = [
    "STOP_WORDS",
    "Hit",
    "Include",
    "Lane",
    "Passage",
    "Place",
    "Question",
    "Recall",
    "Receipt",
    "parse_day",
    "parse_query",
    "read_passage",
    "recall",
    "visible_in",
]
