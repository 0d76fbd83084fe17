"""How good answers are: rankings against judgements at note level, and how much of a difference chance explains.

Pure: text, rankings and outlines are handed in. The failure it is shaped against is a mean without its uncertainty: on
seventy questions a gain of .02 is as often luck as not, so every mean carries an interval and every comparison is
paired, question by question.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, product
from typing import Any, Final, NamedTuple

from vademecum.search.query import parse_query

METRICS: Final = ("mrr", "recall@1", "recall@5", "recall@10", "ndcg@10", "empty")
DERIVED: Final = "derived"
RESAMPLES: Final = 2_000
SEED: Final = 1

_FLIPS: Final = 4_000
_EXACT_DIFFERENCES: Final = 12  # 2¹² sign patterns are as few as the random ones, and exact
_TAIL: Final = 0.025
_CUT: Final = 10
# 2^grade has to stay a number; nobody grades so finely.
_MOST_GRADE: Final = 20
_LINES_NAMED: Final = 5
_HEADER_IDS: Final = frozenset({"id", "qid", "query-id", "query_id"})
_LOWER_IS_BETTER: Final = frozenset({"empty"})
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_COIN: Final = bytes(byte & 1 for byte in range(256))


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question, where it comes from, and the grade of each note judged for it: 0 judged wrong, above 0 right.

    `origin` is the file that asks it, or "derived"; `id` is unique within the origin.
    """

    id: str
    text: str
    kind: str
    origin: str
    grades: Mapping[str, int]


class Outline(NamedTuple):
    """The words by which a note calls itself."""

    path: str
    title: str
    aliases: Sequence[str]
    headings: Sequence[str]


# ── one ranking against its judgements


def ranks_of(ranked: Iterable[str], grades: Mapping[str, int]) -> dict[str, int]:
    """The rank, from 1, of each judged note in a ranking; a repeated note counts where it stands first."""
    return {path: rank for rank, path in enumerate(dict.fromkeys(ranked), 1) if path in grades}


def reciprocal_rank(ranks: Mapping[str, int], grades: Mapping[str, int]) -> float:
    """One over the rank of the first right note, 0 when there is none (Voorhees, TREC-8 question answering, 1999)."""
    found = [rank for path, rank in ranks.items() if grades[path] > 0]
    return 1 / min(found) if found else 0.0


def recall_at(cut: int, ranks: Mapping[str, int], grades: Mapping[str, int]) -> float:
    """The part of all right notes that stands among the first `cut`; with two right notes, at most .5 at 1."""
    right = [path for path, grade in grades.items() if grade > 0]
    return sum(ranks.get(path, cut + 1) <= cut for path in right) / len(right) if right else 0.0


def ndcg_at(cut: int, ranks: Mapping[str, int], grades: Mapping[str, int]) -> float:
    """The discounted gain of the first `cut` notes over that of the best order of all judged notes.

    Gain 2^grade − 1 (Burges et al., 2005), discount log2(rank + 1) (Järvelin and Kekäläinen, 2002).
    """
    gained = sum(_gain(grades[path], rank) for path, rank in sorted(ranks.items(), key=_by_rank) if rank <= cut)
    best = sorted(grades.values(), reverse=True)[:cut]
    ideal = sum(_gain(grade, rank) for rank, grade in enumerate(best, 1))
    return gained / ideal if ideal else 0.0


def _by_rank(item: tuple[str, int]) -> int:
    return item[1]


def _gain(grade: int, rank: int) -> float:
    return float((1 << grade) - 1) / math.log2(rank + 1)


@dataclass(frozen=True, slots=True)
class Score:
    """How one question fared: the rank of each judged note that was found, and how many notes the answer held."""

    question: JudgedQuestion
    ranks: Mapping[str, int]
    answered: int

    @property
    def values(self) -> tuple[float, ...]:
        """The metrics, in the order of METRICS; "empty" is 1 when nothing was answered."""
        ranks, grades = self.ranks, self.question.grades
        return (
            reciprocal_rank(ranks, grades),
            *(recall_at(cut, ranks, grades) for cut in (1, 5, 10)),
            ndcg_at(_CUT, ranks, grades),
            float(self.answered == 0),
        )

    def as_json(self) -> dict[str, Any]:
        """The score as plain values: ranks and judgements, from which the metrics follow."""
        question = self.question
        return {
            "origin": question.origin,
            "id": question.id,
            "kind": question.kind,
            "question": question.text,
            "grades": dict(question.grades),
            "ranks": dict(self.ranks),
            "answered": self.answered,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Score:
        """The score that `as_json` gave. Raises ValueError, KeyError, TypeError or AttributeError for anything else."""
        grades = {str(path): int(grade) for path, grade in stored["grades"].items()}
        ranks = {str(path): int(rank) for path, rank in stored["ranks"].items()}
        if not ranks.keys() <= grades.keys() or min(ranks.values(), default=1) < 1 or not _gradable(grades.values()):
            raise ValueError("ranks and grades do not fit together")
        key, text, kind, origin = (str(stored[name]) for name in ("id", "question", "kind", "origin"))
        return cls(JudgedQuestion(key, text, kind, origin, grades), ranks, int(stored["answered"]))


def score(question: JudgedQuestion, ranked: Sequence[str]) -> Score:
    """Hold a ranking of note paths, best first, against the question's judgements."""
    return Score(question, ranks_of(ranked, question.grades), len(ranked))


def _gradable(grades: Iterable[int]) -> bool:
    return all(0 <= grade <= _MOST_GRADE for grade in grades)


# ── many questions


class Mean(NamedTuple):
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, float]:
        """Mean and interval, rounded so that equal runs print equally."""
        return {"mean": round(self.value, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


@dataclass(frozen=True, slots=True)
class Run:
    """What one way of searching, under one set of settings, made of every question.

    `shortfalls` counts answers that lacked something the run was meant to measure, by reason.
    """

    name: str
    lane: str
    rerank: bool
    settings: Mapping[str, int | float | bool | str]
    scores: tuple[Score, ...]
    shortfalls: Mapping[str, int]

    def means(self) -> dict[str, Mean]:
        """Each metric's mean over the questions, with a bootstrap interval. There must be a question."""
        return dict(zip(METRICS, bootstrap([score.values for score in self.scores]), strict=True))

    def groups(self) -> dict[str, Run]:
        """The run by origin of the questions, and by kind where one origin has several. Derived kinds are not mixed."""
        kinds: dict[str, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
        for item in self.scores:
            kinds[item.question.origin][item.question.kind].append(item)
        parts: dict[str, list[Score]] = {}
        for origin, of_kind in kinds.items():
            if origin != DERIVED:
                parts[origin] = [item for items in of_kind.values() for item in items]
            if origin == DERIVED or len(of_kind) > 1:
                parts |= {f"{origin}: {kind}": items for kind, items in of_kind.items()}
        return {label: replace(self, scores=tuple(items)) for label, items in parts.items()}

    def as_json(self) -> dict[str, Any]:
        """The run as plain values, with every question's ranks, so that it can be compared later."""
        return {
            "name": self.name,
            "lane": self.lane,
            "rerank": self.rerank,
            "settings": dict(self.settings),
            "shortfalls": dict(self.shortfalls),
            "groups": {
                label: {"questions": len(part.scores), **{name: mean.as_json() for name, mean in part.means().items()}}
                for label, part in self.groups().items()
            },
            "questions": [item.as_json() for item in self.scores],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Run:
        """The run that `as_json` gave. Raises ValueError for anything else."""
        try:
            return cls(
                name=str(stored["name"]),
                lane=str(stored["lane"]),
                rerank=bool(stored["rerank"]),
                settings=dict(stored["settings"]),
                scores=tuple(Score.from_json(item) for item in stored["questions"]),
                shortfalls={str(reason): int(count) for reason, count in stored["shortfalls"].items()},
            )
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"no run of questions: {exc!r}") from exc


class Difference(NamedTuple):
    """The mean difference of one metric between two runs, its 95 % interval, and how likely chance alone does it."""

    mean: Mean
    better: int
    worse: int
    same: int
    p: float

    def as_json(self) -> dict[str, Any]:
        """The difference as plain values."""
        counts = {"better": self.better, "worse": self.worse, "same": self.same}
        return {**self.mean.as_json(), **counts, "p": round(self.p, 4)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs on the questions that both were asked, with the same judgements; `unpaired` counts the others."""

    before: str
    after: str
    questions: int
    unpaired: int
    metrics: Mapping[str, Difference]

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return {
            "before": self.before,
            "after": self.after,
            "questions": self.questions,
            "unpaired": self.unpaired,
            "metrics": {name: difference.as_json() for name, difference in self.metrics.items()},
        }


def compare(before: Run, after: Run) -> Comparison:
    """Hold two runs against each other, question by question; a positive difference means that `after` has more.

    "Better" and "worse" judge the second run: an empty answer less is better. Without a common question there are no
    metrics.
    """
    first, second = _by_question(before), _by_question(after)
    common = [key for key in first if key in second and first[key].question.grades == second[key].question.grades]
    rows = [tuple(b - a for a, b in zip(first[key].values, second[key].values, strict=True)) for key in common]
    means = dict(zip(METRICS, bootstrap(rows), strict=True)) if rows else {}
    columns = dict(zip(METRICS, zip(*rows, strict=True), strict=True)) if rows else {}
    return Comparison(
        before=before.name,
        after=after.name,
        questions=len(common),
        unpaired=len(first.keys() | second.keys()) - len(common),
        metrics={name: _difference(name, mean, columns[name]) for name, mean in means.items()},
    )


def _by_question(run: Run) -> dict[tuple[str, str], Score]:
    return {(item.question.origin, item.question.id): item for item in run.scores}


def _difference(metric: str, mean: Mean, column: Sequence[float]) -> Difference:
    more, less = sum(d > 0 for d in column), sum(d < 0 for d in column)
    better, worse = (less, more) if metric in _LOWER_IS_BETTER else (more, less)
    return Difference(mean, better, worse, len(column) - more - less, chance(column))


def bootstrap(rows: Sequence[Sequence[float]], *, resamples: int = RESAMPLES, seed: int = SEED) -> list[Mean]:
    """The mean of each column and its 95 % percentile interval (Efron and Tibshirani, 1993, chapter 13).

    Rows are drawn whole, with replacement. The same rows give the same interval, always.
    """
    draw, size = random.Random(seed), len(rows)  # noqa: S311 - repeatable, and nothing secret
    drawn = [[sum(column) / size for column in zip(*draw.choices(rows, k=size), strict=True)] for _ in range(resamples)]
    edge = int(resamples * _TAIL)
    means = []
    for column, samples in zip(zip(*rows, strict=True), zip(*drawn, strict=True), strict=True):
        ordered = sorted(samples)
        means.append(Mean(sum(column) / size, ordered[edge], ordered[-edge - 1]))
    return means


def chance(differences: Sequence[float], *, seed: int = SEED) -> float:
    """How often a difference in mean this large arises when either run is as likely to be the better on a question.

    The two-sided randomisation test on paired differences (Smucker, Allan and Carterette, CIKM 2007): exact for few
    questions that differ, else from random sign patterns, with the observed one counted in.
    """
    moved = [difference for difference in differences if difference]
    if not moved:
        return 1.0
    total = sum(moved)
    least = abs(total) - 1e-9
    if len(moved) <= _EXACT_DIFFERENCES:
        patterns: Iterable[Iterable[int]] = product((0, 1), repeat=len(moved))
        flipped = [abs(total - 2 * sum(compress(moved, pattern))) >= least for pattern in patterns]
        return sum(flipped) / len(flipped)
    toss = random.Random(seed)  # noqa: S311 - repeatable, and nothing secret
    coins = (toss.randbytes(len(moved)).translate(_COIN) for _ in range(_FLIPS))
    extreme = sum(abs(total - 2 * sum(compress(moved, coin))) >= least for coin in coins)
    return (extreme + 1) / (_FLIPS + 1)


# ── questions and judgements as people write them


class Reading(NamedTuple):
    """What a file of questions or judgements says, and what in it could not be used, in sentences."""

    questions: Sequence[JudgedQuestion]
    warnings: Sequence[str]


class _Complaints:
    """Lines that were left out, by reason."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, where: str) -> None:
        self._lines[reason].append(where)

    def sentences(self) -> list[str]:
        return [f"{self._name}: {_listed(where)}: {reason}" for reason, where in self._lines.items()]


def _listed(where: Sequence[str]) -> str:
    named = ", ".join(where[:_LINES_NAMED])
    return named if len(where) <= _LINES_NAMED else f"{named} and {len(where) - _LINES_NAMED:,} more"


def read_judged(
    questions: tuple[str, str], judgements: tuple[str, str], *, origin: str, find: Callable[[str], str | None]
) -> Reading:
    """Put a file of questions (id, question, kind) and one of judgements (id, note, grade) together.

    Both come as (name, text), tab separated. `find` gives the path of the note that a judgement names, None where
    there is none. What cannot be used is left out and told of; so is a question that has no right note.
    """
    asked, complaints = _questions(*questions)
    graded, warnings = _judgements(*judgements, known=asked.keys(), find=find)
    usable = []
    for key, (text, kind) in asked.items():
        grades = graded.get(key, {})
        if any(grade > 0 for grade in grades.values()):
            usable.append(JudgedQuestion(key, text, kind, origin, grades))
        else:
            complaints.add("without a right note among the judgements, left out of the means", f"question {key}")
    return Reading(usable, [*complaints.sentences(), *warnings])


def _questions(name: str, text: str) -> tuple[dict[str, tuple[str, str]], _Complaints]:
    asked: dict[str, tuple[str, str]] = {}
    complaints = _Complaints(name)
    for number, cells in _rows(text):
        where = f"line {number}"
        key, question, kind = (*cells, "", "")[:3]
        if len(cells) < 2:
            complaints.add("no tab between id and question", where)
        elif not key or not question:
            complaints.add("the id or the question is empty", where)
        elif parse_query(question).empty:
            complaints.add("the question holds no word", where)
        elif key in asked:
            complaints.add("the id was used before", where)
        else:
            asked[key] = (question, kind or "question")
    return asked, complaints


def _judgements(
    name: str, text: str, *, known: Iterable[str], find: Callable[[str], str | None]
) -> tuple[dict[str, dict[str, int]], list[str]]:
    graded: dict[str, dict[str, int]] = defaultdict(dict)
    complaints, ids = _Complaints(name), set(known)
    for number, cells in _rows(text):
        where = f"line {number}"
        key, note, written = (*cells, "", "")[:3]
        grade = int(written) if written.isdecimal() and len(written) <= 3 else -1
        if len(cells) < 3:
            complaints.add("not three cells, id, note and grade, with tabs between them", where)
        elif not _gradable([grade]):
            complaints.add(f"the grade is no whole number from 0 to {_MOST_GRADE}", where)
        elif key not in ids:
            complaints.add("no question has this id", where)
        elif (path := find(note)) is None:
            complaints.add("there is no such note", where)
        elif path in graded[key]:
            complaints.add("this note was judged before for this question", where)
        else:
            graded[key][path] = grade
    return graded, complaints.sentences()


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that say something: number and cells. Blank lines, # comments and a line of headings say nothing."""
    first = True
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if not (first and cells[0].casefold() in _HEADER_IDS):
            yield number, cells
        first = False


# ── questions that a vault asks of itself


def derive(notes: Iterable[Outline], *, limit: int, seed: int = SEED) -> list[JudgedQuestion]:
    """Questions from titles, aliases and telling headings, each answered by the notes that are called so.

    At most `limit` of a kind, taken at even distances over the paths in order. A heading counts when no other heading,
    title or alias reads like it and it has two words or more. Such a question asks for a note by its own words, which
    favours search by words: it tells whether settings break something, not how well people are understood.
    """
    outlines = sorted(notes)
    titles = _named((note.title, note.path) for note in outlines)
    aliases = _named((alias, note.path) for note in outlines for alias in note.aliases)
    headings = _named((heading, note.path) for note in outlines for heading in note.headings)
    counts = Counter(_key(heading) for note in outlines for heading in note.headings)
    draw = random.Random(seed)  # noqa: S311 - repeatable, and nothing secret
    kinds = {
        "title": {key: (text, paths | aliases.get(key, ("", set()))[1]) for key, (text, paths) in titles.items()},
        "alias": {key: named for key, named in aliases.items() if key not in titles},
        "heading": {
            key: named
            for key, named in headings.items()
            if counts[key] == 1 and _tells(named[0]) and key not in titles and key not in aliases
        },
    }
    return [
        JudgedQuestion(f"{kind}: {key}", text, kind, DERIVED, dict.fromkeys(sorted(paths), 1))
        for kind, named in kinds.items()
        for key, (text, paths) in _spread(list(named.items()), limit, draw)
    ]


def _named(names: Iterable[tuple[str, str]]) -> dict[str, tuple[str, set[str]]]:
    """Every name that can be asked for, as it is asked, with the notes that bear it."""
    found: dict[str, tuple[str, set[str]]] = {}
    for name, path in names:
        text = _plain(name)
        if not parse_query(text).empty:
            found.setdefault(_key(text), (text, set()))[1].add(path)
    return found


def _plain(name: str) -> str:
    """A name with nothing in it that a question would take for a phrase or for a word to leave out."""
    return " ".join(filter(None, (word.lstrip("-") for word in name.replace('"', " ").split())))


def _key(name: str) -> str:
    return _plain(name).casefold()


def _tells(heading: str) -> bool:
    """Whether a heading is more than one word; a script without spaces needs four characters for that."""
    return " " in heading or len(_UNSPACED.findall(heading)) >= 4


def _spread(items: Sequence[Any], limit: int, draw: random.Random) -> list[Any]:
    if len(items) <= limit:
        return list(items)
    step = len(items) / limit
    start = draw.random() * step
    return [items[int(start + i * step)] for i in range(limit)]
