"""Deterministic synthetic Obsidian vault.

    python benchmarks/make_vault.py --notes N --seed S [--out DIR] [--clean]

Same (N, S) gives byte-identical files on any machine: only random.Random(seed) and integer and float arithmetic from
the standard library are used, no clock, no hash(). The order in which random numbers are drawn is part of the format:
a change to it makes every earlier figure incomparable.

Shape: PARA-like folders and daily notes, YAML frontmatter (title, date, tags, aliases, status), headings, tasks,
callouts, code blocks, tables, block ids, inline tags and wikilinks whose targets follow a power law (Zipf ranks), a few
unresolved links, 300 to 3,000 words a note (log-uniform, median about 950). Words come from a pseudo-English
vocabulary of 20,000 drawn with Zipf weights, plus real English function words, so that BM25 statistics look like prose.
Each note also carries a planted fact ("The ZORBLAX budget is 4417 credits") that needle queries can look for; those
are written to queries.tsv and qrels.tsv beside the vault.
"""

import argparse
import itertools
import random
import shutil
import time
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

FUNCTION_WORDS = (  # noqa: SIM905  (words in a row read better than a hundred quoted ones)
    "the of and to a in is that it was for on are as with his they be at one have this from or had by "
    "not but what all were we when your can said there use an each which she do how their if will up "
    "other about out many then them these so some her would make like him into time has look two more "
    "write go see number no way could people my than first been call who its now find long down day did "
    "get come made may part"
).split()
ONSETS = "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sh st t th tr v w".split()  # noqa: SIM905
NUCLEI = "a e i o u ai ea ou io ee".split()  # noqa: SIM905
CODAS = ["", "", "", "n", "r", "s", "l", "t", "nd", "st", "m", "ck", "rm", "ng"]
SUFFIXES = ["", "", "", "", "", "", "ing", "ed", "tion", "ness", "ity", "ment", "al", "er", "ist"]
FOLDERS = [
    "Projects/{a}",
    "Projects/{a}/Meetings",
    "Areas/{a}",
    "Resources/{a}",
    "Resources/{a}/{b}",
    "Archive/{y}",
    "Daily/{y}/{m}",
    "People",
    "Inbox",
    "Zettelkasten",
    "Meetings/{y}",
    "Books",
]
FOLDER_WEIGHTS = [14, 8, 12, 14, 10, 8, 10, 6, 4, 10, 2, 2]
FIRST_DAY = date(2021, 1, 1)
DAYS = 1900


def vocabulary(rnd: random.Random, size: int = 20_000) -> list[str]:
    """Pseudo-English words, each once, in the order in which Zipf weights are given to them."""
    seen, words = set(FUNCTION_WORDS), list[str]()
    while len(words) < size:
        syllables = (
            rnd.choice(ONSETS) + rnd.choice(NUCLEI) + rnd.choice(CODAS) for _ in range(rnd.choice((1, 1, 2, 2, 3)))
        )
        word = "".join(syllables) + rnd.choice(SUFFIXES)
        if 3 <= len(word) <= 14 and word not in seen:
            seen.add(word)
            words.append(word)
    return words


def zipf_sums(size: int, exponent: float = 1.05) -> list[float]:
    """Cumulative Zipf weights of the ranks 0 to size - 1."""
    return list(itertools.accumulate(1.0 / (rank + 2.7) ** exponent for rank in range(size)))


class Prose:
    """Sentences drawn from a mixture per topic.

    Function words 42 %, 120 topic words 20 %, the whole vocabulary (Zipf) 38 %. Words are drawn 4,096 at a time.
    """

    def __init__(self, rnd: random.Random, vocab: list[str], topics: int = 40) -> None:
        self.topics: list[list[str]] = []
        self._mixtures: list[tuple[list[str], list[float]]] = []
        self._pools: dict[int, list[str]] = {}
        functions, everything = zipf_sums(len(FUNCTION_WORDS), 0.9), zipf_sums(len(vocab))
        for _ in range(topics):
            topic = rnd.sample(vocab[400:9000], 120)
            own = zipf_sums(120, 0.6)
            sums = [x / functions[-1] * 0.42 for x in functions]
            sums += [sums[-1] + x / own[-1] * 0.20 for x in own]
            base = sums[-1]
            sums += [base + x / everything[-1] * 0.38 for x in everything]
            self.topics.append(topic)
            self._mixtures.append((FUNCTION_WORDS + topic + vocab, sums))

    def sentence(self, rnd: random.Random, topic: int) -> str:
        """One sentence of 6 to 22 words on the topic."""
        count = 6 + int(rnd.random() * 17)
        pool = self._pools.get(topic)
        if not pool or len(pool) < count:
            words, sums = self._mixtures[topic]
            pool = self._pools[topic] = rnd.choices(words, cum_weights=sums, k=4096)
        taken = pool[-count:]
        del pool[-count:]
        if count > 12:
            taken[count // 2] += ","
        text = " ".join(taken)
        return text[0].upper() + text[1:] + ("." if count != 9 else "?")


@dataclass(frozen=True, slots=True)
class Made:
    """What was written."""

    words: int
    links: int


@dataclass(slots=True)
class Draft:
    """One note while it grows."""

    number: int
    topic: int
    day: date
    lines: list[str]
    fact: str
    fact_at: float  # words after which the fact is planted
    planted: bool = False
    words: int = 0
    sections: int = 0


class Maker:
    """The vault's shared state: its words, its titles, how popular each note is as a link's target."""

    def __init__(self, notes: int, seed: int) -> None:
        rnd = self.rnd = random.Random(seed)
        self.notes = notes
        self.vocab = vocabulary(rnd)
        self.prose = Prose(rnd, self.vocab)
        self.tags = list(rnd.sample(self.vocab[:3000], 120))
        self.areas = [word.capitalize() for word in rnd.sample(self.vocab[:4000], 24)]
        self.titles: list[str] = []
        self.folders: list[str] = []
        self._name_notes()
        self.order = list(range(notes))  # popularity rank -> note
        rnd.shuffle(self.order)
        self.popularity = zipf_sums(notes, 0.95)
        self.links = 0
        self.codes: set[str] = set()

    def _name_notes(self) -> None:
        rnd, seen = self.rnd, set[tuple[str, str]]()
        for number in range(self.notes):
            pattern = rnd.choices(FOLDERS, FOLDER_WEIGHTS)[0]
            day = FIRST_DAY + timedelta(days=rnd.randrange(DAYS))
            folder = pattern.format(
                a=rnd.choice(self.areas), b=rnd.choice(self.areas), y=day.year, m=f"{day.month:02d}"
            )
            title = self._title(folder, day, number)
            if (folder, title) in seen:
                title = f"{title} {number}"
            seen.add((folder, title))
            self.titles.append(title)
            self.folders.append(folder)

    def _title(self, folder: str, day: date, number: int) -> str:
        rnd, vocab = self.rnd, self.vocab
        if folder.startswith("Daily"):
            return day.isoformat()
        if folder == "People":
            return rnd.choice(vocab).capitalize() + " " + rnd.choice(vocab).capitalize()
        if folder == "Zettelkasten":
            return f"{day:%Y%m%d}{number % 10000:04d} " + " ".join(rnd.choice(vocab) for _ in range(3))
        return " ".join(rnd.choice(vocab[:8000]) for _ in range(rnd.randint(2, 5))).capitalize()

    def note(self, number: int) -> tuple[Draft, tuple[str, str, str]]:
        """One whole note, and the three forms of the query that its planted fact answers."""
        rnd = self.rnd
        topic = rnd.randrange(len(self.prose.topics))
        day = FIRST_DAY + timedelta(days=rnd.randrange(DAYS))
        target = int(300 * (10 ** rnd.random()))  # 300 to 3,000, log-uniform
        lines = self._frontmatter(number, topic, day)
        code = self._code()
        amount = rnd.randint(1000, 99999)
        fact = rnd.choice(
            (
                f"The {code} budget is {amount} credits.",
                f"We agreed that {code} ships on day {amount}.",
                f"{code.capitalize()} depends on part number {amount}.",
            )
        )
        draft = Draft(number, topic, day, lines, fact, fact_at=target * rnd.random() * 0.9)
        while draft.words < target:
            self._grow(draft)
        if not draft.planted:
            lines += [fact, ""]
        return draft, (code, f"what is the {code} number", f"{code} {amount}")

    def _frontmatter(self, number: int, topic: int, day: date) -> list[str]:
        rnd = self.rnd
        tags = [self.tags[int(rnd.random() ** 2 * len(self.tags))] for _ in range(rnd.randint(1, 4))]
        lines = ["---", f'title: "{self.titles[number]}"', f"date: {day.isoformat()}", "tags:"]
        lines += [f"  - {tag}" for tag in dict.fromkeys(tags)]
        if rnd.random() < 0.3:
            lines += ["aliases:", f"  - {rnd.choice(self.vocab)} {rnd.choice(self.vocab)}"]
        if rnd.random() < 0.5:
            lines.append("status: " + rnd.choice(("active", "done", "someday", "draft")))
        description = self.prose.sentence(rnd, topic).replace(":", "")
        return [*lines, "description: " + description, "---", "", f"# {self.titles[number]}", ""]

    def _code(self) -> str:
        """A code name that no other note has."""
        rnd = self.rnd
        while True:
            code = (
                "".join(rnd.choice("bcdfgklmnprstvz") + rnd.choice("aeiou") for _ in range(3))
                + rnd.choice("xkz")
                + rnd.choice("aeiou")
                + rnd.choice("nrl")
            )
            if code not in self.codes:
                self.codes.add(code)
                return code

    def _grow(self, draft: Draft) -> None:
        """Add one part to the note: mostly paragraphs."""
        drawn = self.rnd.random()
        if drawn < 0.16 or draft.sections == 0:
            self._heading(draft)
            return
        parts: tuple[tuple[float, Callable[[Draft], None]], ...] = (
            (0.24, self._tasks),
            (0.34, self._bullets),
            (0.37, self._callout),
            (0.395, self._code_block),
            (0.41, self._table),
            (1.0, self._paragraph),
        )
        next(add for limit, add in parts if drawn < limit)(draft)

    def _heading(self, draft: Draft) -> None:
        rnd, topic = self.rnd, self.prose.topics[draft.topic]
        marks = "#" * rnd.choice((2, 2, 2, 3, 3, 4))
        text = " ".join(rnd.choice(topic) for _ in range(rnd.randint(1, 4))).capitalize()
        draft.lines += ["", f"{marks} {text}", ""]
        draft.sections += 1
        draft.words += 3

    def _tasks(self, draft: Draft) -> None:
        rnd = self.rnd
        for _ in range(rnd.randint(2, 6)):
            line = f"- [{rnd.choice('  x')}] " + self.prose.sentence(rnd, draft.topic)
            if rnd.random() < 0.3:
                line += f" 📅 {(draft.day + timedelta(days=rnd.randrange(60))).isoformat()}"
            draft.lines.append(line)
            draft.words += 14
        draft.lines.append("")

    def _bullets(self, draft: Draft) -> None:
        for _ in range(self.rnd.randint(3, 7)):
            draft.lines.append("- " + self.prose.sentence(self.rnd, draft.topic))
            draft.words += 14
        draft.lines.append("")

    def _callout(self, draft: Draft) -> None:
        rnd = self.rnd
        kind = rnd.choice(("note", "tip", "warning", "quote"))
        title = rnd.choice(self.prose.topics[draft.topic])
        draft.lines += [f"> [!{kind}] {title}", "> " + self.prose.sentence(rnd, draft.topic), ""]
        draft.words += 16

    def _code_block(self, draft: Draft) -> None:
        rnd = self.rnd
        name = rnd.choice(self.prose.topics[draft.topic])
        draft.lines += ["```python", f"def {name}(x):", f"    return x * {rnd.randint(2, 99)}", "```", ""]
        draft.words += 8

    def _table(self, draft: Draft) -> None:
        rnd, topic = self.rnd, self.prose.topics[draft.topic]
        rows = [f"| {rnd.choice(topic)} | {rnd.randint(1, 9999)} |" for _ in range(rnd.randint(2, 6))]
        draft.lines += ["| key | value |", "| --- | --- |", *rows, ""]
        draft.words += 12

    def _paragraph(self, draft: Draft) -> None:
        rnd = self.rnd
        sentences = [self.prose.sentence(rnd, draft.topic) for _ in range(rnd.randint(2, 6))]
        for _ in range(rnd.choice((0, 0, 1, 1, 2))):
            link = self._link(draft.topic)
            sentences.insert(rnd.randrange(len(sentences)), f"See {link}.")
            self.links += 1
        if rnd.random() < 0.12:
            sentences.append("#" + rnd.choice(self.tags))
        if not draft.planted and draft.words >= draft.fact_at:
            sentences.insert(rnd.randrange(len(sentences)), draft.fact)
            draft.planted = True
        text = " ".join(sentences)
        if rnd.random() < 0.03:
            text += f" ^blk{draft.number:x}{draft.sections:x}"
        draft.lines += [text, ""]
        draft.words += sum(map(len, sentences)) // 6

    def _link(self, topic_number: int) -> str:
        rnd, topic = self.rnd, self.prose.topics[topic_number]
        if rnd.random() < 0.06:
            target = "Missing " + rnd.choice(self.vocab)
        else:
            rank = bisect(self.popularity, rnd.random() * self.popularity[-1])
            target = self.titles[self.order[min(self.notes - 1, rank)]]
        form = rnd.random()
        if form < 0.6:
            return f"[[{target}]]"
        if form < 0.85:
            return f"[[{target}|{rnd.choice(topic)}]]"
        if form < 0.95:
            return f"[[{target}#{rnd.choice(topic).capitalize()}]]"
        return f"![[{target}]]"


def build(out: Path, notes: int, seed: int) -> Made:
    """Write the vault to `out`, and the queries that it answers beside it."""
    maker = Maker(notes, seed)
    words, queries = 0, list[tuple[str, str, str]]()
    for number in range(notes):
        draft, forms = maker.note(number)
        relative = f"{maker.folders[number]}/{maker.titles[number]}.md"
        (out / maker.folders[number]).mkdir(parents=True, exist_ok=True)
        (out / relative).write_text("\n".join(draft.lines) + "\n", encoding="utf-8")
        words += draft.words
        # About 400 queries of three kinds in turn: a code name, a question, a code name with its number.
        if number % max(1, notes // 400) == 0:
            queries.append((f"q{len(queries)}", forms[len(queries) % 3], relative))
    queries_text = "".join(f"{key}\t{query}\n" for key, query, _ in queries)
    qrels_text = "".join(f"{key}\t{relative}\t1\n" for key, _, relative in queries)
    (out.parent / "queries.tsv").write_text(queries_text, encoding="utf-8")
    (out.parent / "qrels.tsv").write_text(qrels_text, encoding="utf-8")
    return Made(words, maker.links)


def main() -> None:
    """Read the command line and build one vault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--notes", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="default ./syn-<N>/vault")
    parser.add_argument("--clean", action="store_true")
    arguments = parser.parse_args()
    out: Path = arguments.out or Path(f"syn-{arguments.notes}/vault")
    if arguments.clean and out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    made = build(out, arguments.notes, arguments.seed)
    took = time.perf_counter() - start
    print(
        f"{out}: {arguments.notes} notes, ~{made.words} words, {made.links} links, "
        f"{took:.1f} s ({arguments.notes / took:.0f} notes/s)"
    )


if __name__ == "__main__":
    main()
