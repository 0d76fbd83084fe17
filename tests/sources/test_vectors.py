"""Vectors follow the text: made once, the newest notes first, lost by nothing but removal, and never mixed."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from embedder import FakeModel, Ollama, direction
from loopback import Reply, Serve
from process import run_python
from vademecum.errors import EmbedderDown, TextRefused
from vademecum.sources import Source
from vademecum.sources.vectors import EmbedReport, embed
from workbench import Workbench, counts, files_with, selected

WriteTree = Callable[..., Path]
Later = Callable[[float], None]

NOTES = {f"{name}.md": f"The {name} digs at night." for name in ("wombat", "numbat", "quokka", "bilby", "dunnart")}


def run(bench: Workbench, model: FakeModel, budget_s: float | None = None) -> EmbedReport:
    return embed(bench.app.index, model, bench.settings, budget_s=budget_s, sources=bench.app.registry.all())


def calls(bench: Workbench, model: FakeModel) -> list[str]:
    """What a run to the end asks the model."""
    before = len(model.asked)
    run(bench, model)
    return model.asked[before:]


def sets(bench: Workbench) -> list[tuple[str, bool, int, int, int]]:
    return [(s.name, bool(s.answers), s.have, s.missing, s.refused) for s in bench.app.index.vectors.sets()]


def stored(bench: Workbench) -> dict[bytes, bytes]:
    rows = selected(bench.settings, "select t.hash h, v.embedding e from vector v join content t on t.id = v.content")
    return {row["h"]: row["e"] for row in rows}


def refusing(*words: str) -> Callable[[Sequence[str]], None]:
    def trouble(texts: Sequence[str]) -> None:
        if any(word in text for text in texts for word in words):
            raise TextRefused("too long for it")

    return trouble


def failing(*words: str) -> Callable[[Sequence[str]], None]:
    """The embedder fails, rather than refuses, whenever one of these words is among the texts."""

    def trouble(texts: Sequence[str]) -> None:
        if any(word in text for text in texts for word in words):
            raise EmbedderDown("it crashed")

    return trouble


def down(_: Sequence[str]) -> None:
    raise EmbedderDown("it is down", hint="start it")


# ── a run


def test_every_text_gets_the_vector_of_its_own_words(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel()
    report = run(bench, model)
    assert (report.state, report.embedded, report.have, report.pending, report.refused) == ("done", 5, 5, 0, 0)
    assert report.answers
    assert sorted(model.asked) == sorted(f"{name[:-3]}\n{text}" for name, text in NOTES.items())
    assert set(stored(bench).values()) == {direction(text).tobytes() for text in model.asked}


def test_the_newest_notes_come_first(bench: Workbench, write_tree: WriteTree) -> None:
    import os

    root = write_tree(NOTES)
    ages = {"wombat": 3, "numbat": 1, "quokka": 5, "bilby": 2, "dunnart": 4}
    for name, days in ages.items():
        os.utime(root / f"{name}.md", (1e9 - days * 86400,) * 2)
    bench.add(root)
    model = FakeModel()
    run(bench, model)
    assert [text.split("\n")[0] for text in model.asked] == sorted(ages, key=lambda name: ages[name])


def test_a_run_without_a_budget_asks_nothing_and_counts(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel()
    report = run(bench, model, budget_s=0)
    assert model.asked == []
    assert (report.state, report.embedded, report.have, report.pending) == ("partial", 0, 0, 5)
    assert report.reason
    run(bench, model)
    report = run(bench, model, budget_s=0)
    assert (report.state, report.have, report.pending) == ("done", 5, 0)


def test_a_run_ends_when_its_time_is_up_and_the_next_goes_on(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel(trouble=lambda _: time.sleep(0.1))
    report = run(bench, model, budget_s=0.15)
    assert report.state == "partial"
    assert 1 <= report.embedded < 5
    assert report.have + report.pending == 5
    rest = run(bench, model)
    assert rest.embedded == report.pending
    assert len(model.asked) == 5


@pytest.mark.parametrize("batch", [1, 2, 16])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_whatever_ends_a_run_loses_one_request_at_most(
    bench: Workbench, write_tree: WriteTree, batch: int, error: type[BaseException]
) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel(batch=batch)

    def trouble(texts: Sequence[str]) -> None:
        if len(model.asked) > 3:
            raise error

    model.trouble = trouble
    with pytest.raises(error):
        run(bench, model)
    kept = (3 // batch) * batch
    assert len(stored(bench)) == kept
    again = FakeModel(batch=batch)
    assert run(bench, again).embedded == 5 - kept
    assert len(again.asked) == 5 - kept


def test_progress_is_told_with_what_is_to_do(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(NOTES))
    told: list[tuple[int, int]] = []
    embed(
        bench.app.index, FakeModel(batch=2), bench.settings, budget_s=None, progress=lambda d, n, _: told.append((d, n))
    )
    assert told == [(2, 5), (4, 5), (5, 5)]


def test_nothing_to_embed_is_done(bench: Workbench) -> None:
    bench.app.registry.all()
    bench.settings.home.mkdir(exist_ok=True)
    bench.settings.run_dir.mkdir(exist_ok=True)
    report = run(bench, FakeModel())
    assert (report.state, report.have, report.pending, report.answers) == ("done", 0, 0, True)


def test_a_second_run_beside_one_says_that_it_is_busy_and_waits_only_with_all_the_time(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(write_tree(NOTES))
    model, beside = FakeModel(), FakeModel()
    reports: list[EmbedReport] = []

    def trouble(_: Sequence[str]) -> None:
        if not reports:
            other = Workbench(bench.settings.home)
            reports.append(run(other, beside, budget_s=60))
            other.close()

    model.trouble = trouble
    run(bench, model)
    assert [(r.state, r.embedded, r.pending) for r in reports] == [("busy", 0, 5)]
    assert beside.asked == []


# ── what costs no call


def settled(bench: Workbench, root: Path, later: Later) -> tuple[Source, FakeModel]:
    source = bench.add(root)
    later(3600)
    bench.sync(source)
    model = FakeModel()
    run(bench, model)
    return source, model


Change = Callable[[Path], None]


def rename(root: Path) -> None:
    (root / "wombat.md").rename(root / "other name.md")


def move(root: Path) -> None:
    (root / "deep" / "er").mkdir(parents=True)
    (root / "wombat.md").rename(root / "deep" / "er" / "wombat.md")


def rename_everything(root: Path) -> None:
    (root / "all").mkdir()
    for path in list(root.glob("*.md")):
        path.rename(root / "all" / f"x {path.name}")


def touch(root: Path) -> None:
    for path in root.glob("*.md"):
        path.write_bytes(path.read_bytes())


def copy(root: Path) -> None:
    (root / "copy").mkdir()
    shutil.copy(root / "wombat.md", root / "copy" / "wombat.md")


def tag(root: Path) -> None:
    (root / "wombat.md").write_text("---\ntags: [new]\n---\n" + NOTES["wombat.md"])


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("change", [rename, move, rename_everything, touch, copy, tag])
def test_no_text_is_embedded_twice(
    bench: Workbench, write_tree: WriteTree, later: Later, change: Change, force: bool
) -> None:
    root = write_tree(NOTES)
    source, model = settled(bench, root, later)
    before = stored(bench)
    change(root)
    bench.sync(source, force=force)
    assert calls(bench, model) == []
    assert stored(bench) == before
    assert len(bench.found("digs", lane="words")) >= 5


def test_a_note_renamed_twice_and_edited_after_costs_only_the_edit(
    bench: Workbench, write_tree: WriteTree, later: Later
) -> None:
    root = write_tree(NOTES)
    source, model = settled(bench, root, later)
    for old, new in (("wombat", "one"), ("one", "two")):
        (root / f"{old}.md").rename(root / f"{new}.md")
        bench.sync(source)
    assert calls(bench, model) == []
    (root / "two.md").write_text("Something else.")
    bench.sync(source)
    assert calls(bench, model) == ["two\nSomething else."]
    assert len(stored(bench)) == 5


def test_a_source_switched_off_and_on_again_keeps_its_vectors(
    bench: Workbench, write_tree: WriteTree, later: Later
) -> None:
    source, model = settled(bench, write_tree(NOTES), later)
    before = stored(bench)
    bench.app.registry.edit(source.id, enabled=False)
    assert calls(bench, model) == []
    bench.app.registry.edit(source.id, enabled=True, name="another name")
    bench.sync(source)
    assert calls(bench, model) == []
    assert stored(bench) == before


@pytest.mark.parametrize("away", ["gone", "empty"])
def test_an_outage_costs_no_vector(
    bench: Workbench, write_tree: WriteTree, later: Later, tmp_path: Path, away: str
) -> None:
    notes = {f"{i}.md": f"word{i} of it" for i in range(40)}
    root = write_tree(notes)
    source, model = settled(bench, root, later)
    before = stored(bench)
    root.rename(tmp_path / "elsewhere")
    if away == "empty":
        root.mkdir()
    bench.sync(source)
    assert calls(bench, model) == []
    if away == "empty":
        root.rmdir()
    (tmp_path / "elsewhere").rename(root)
    bench.sync(source)
    assert calls(bench, model) == []
    assert stored(bench) == before


def test_a_section_that_moves_from_a_deleted_note_into_another_keeps_its_vector(
    bench: Workbench, write_tree: WriteTree, later: Later
) -> None:
    head, section = "---\ntitle: Same\n---\n# First\n\n", "# Section\n\n" + "wombat words " * 90
    first = "first words " * 100
    root = write_tree({"a.md": f"{head}{first}\n\n{section}", "b.md": f"{head}{first}"})
    source, model = settled(bench, root, later)
    (root / "a.md").unlink()
    (root / "b.md").write_text(f"{head}{first}\n\n{section}")
    bench.sync(source)
    assert calls(bench, model) == []


def test_removing_and_adding_again_embeds_again(bench: Workbench, write_tree: WriteTree, later: Later) -> None:
    root = write_tree(NOTES)
    source, model = settled(bench, root, later)
    bench.app.remove(source.id)
    bench.add(root)
    assert len(calls(bench, model)) == 5


# ── texts and embedders that fail


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_one_refused_text_costs_no_other_its_vector(bench: Workbench, write_tree: WriteTree, batch: int) -> None:
    bench.add(write_tree(NOTES))
    report = run(bench, FakeModel(batch=batch, trouble=refusing("quokka")))
    assert (report.state, report.have, report.pending, report.refused) == ("done", 4, 1, 0)


@pytest.mark.parametrize("batch", [1, 16])
def test_a_text_that_always_fails_is_given_up_after_three_tries_and_counted(
    bench: Workbench, write_tree: WriteTree, batch: int
) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel(batch=batch, trouble=refusing("quokka"))
    for _ in range(5):
        report = run(bench, model)
    assert (report.have, report.pending, report.refused) == (4, 0, 1)
    alone = [text for text in model.asked if "quokka" in text]
    assert len(alone) <= 3 + (batch > 1) * 3
    assert calls(bench, model) == []
    ((_, path, attempts, reason),) = bench.app.index.vectors.refusals(1, limit=9)
    assert (path, attempts, reason) == ("quokka.md", 3, "too long for it")
    assert bench.found("quokka", lane="words") == ["quokka.md"]


def test_an_edited_text_gets_its_three_tries_anew(bench: Workbench, write_tree: WriteTree, later: Later) -> None:
    root = write_tree(NOTES)
    source = bench.add(root)
    model = FakeModel(trouble=refusing("quokka digs"))
    for _ in range(4):
        run(bench, model)
    (root / "quokka.md").write_text("The quokka sleeps.")
    bench.sync(source)
    assert run(bench, model).pending == 0
    assert sets(bench) == [("fake", True, 5, 0, 0)]


def test_an_embedder_that_is_down_ends_the_run_and_nothing_is_held_against_the_texts(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel(trouble=down)
    report = run(bench, model)
    assert (report.state, report.reason, report.hint) == ("partial", "it is down", "start it")
    assert (report.have, report.pending, report.refused) == (0, 5, 0)
    assert len(model.asked) <= 6
    assert counts(bench.settings)["refusal"] == 0
    model.trouble = refusing()
    assert run(bench, model).have == 5


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_a_text_at_which_the_embedder_fails_keeps_no_other_from_its_vector(
    bench: Workbench, write_tree: WriteTree, batch: int
) -> None:
    """A server may answer one text with status 500, or hang at it, each time: the rest of the vault must not wait."""
    bench.add(write_tree(NOTES))
    model = FakeModel(batch=batch, trouble=failing("quokka"))
    for _ in range(3):
        report = run(bench, model)
    assert (report.have, report.pending, report.refused) == (4, 0, 1)


def test_a_short_failure_is_waited_out(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(NOTES))
    model = FakeModel()

    def trouble(_: Sequence[str]) -> None:
        if len(model.asked) in (2, 3, 6):
            raise EmbedderDown("restarting")

    model.trouble = trouble
    report = run(bench, model)
    assert (report.state, report.have) == ("done", 5)
    assert report.reason == ""


# ── private notes and other machines


SECRETS = {
    "open.md": "open words",
    "secret.md": "---\nprivate: true\n---\nhidden words",
    "tagged.md": "---\ntags: [private]\n---\nconfidential words",
}


def test_private_notes_are_not_sent_to_another_machine_and_their_owner_finds_them_by_words(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(write_tree(SECRETS))
    model = FakeModel(host="embed.example.org", batch=16)
    report = run(bench, model)
    assert (report.have, report.pending, report.refused) == (1, 0, 2)
    assert model.asked == ["open\nopen words"]
    told = bench.app.index.vectors.refusals(1, limit=9)
    assert {(path, "another machine" in reason) for _, path, _, reason in told} == {
        ("secret.md", True),
        ("tagged.md", True),
    }
    assert bench.found("hidden", lane="words") == ["secret.md"]


def test_memories_are_not_sent_to_another_machine(bench: Workbench) -> None:
    root = bench.app.home.root
    (root / "memories/2026/09").mkdir(parents=True)
    (root / "memories/2026/09/a.md").write_text("---\nsource: mcp-capture\nscope: general\n---\n# A\n\nquartz")
    (root / "open.md").write_text("open words")
    bench.sync(bench.app.home.ensure())
    model = FakeModel(host="embed.example.org", batch=16)
    assert run(bench, model).have == 1
    assert model.asked == ["open\nopen words"]
    assert bench.found("quartz") == ["memories/2026/09/a.md"]


def test_a_note_made_private_since_the_last_sync_is_not_sent(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree(SECRETS)
    bench.add(root)
    (root / "open.md").write_text("---\nprivate: true\n---\nopen words")
    model = FakeModel(host="embed.example.org")
    assert run(bench, model).refused == 3
    assert model.asked == []


def test_what_a_note_has_ceased_to_say_is_not_sent(bench: Workbench, write_tree: WriteTree) -> None:
    root = write_tree({**SECRETS, "plan.md": "old plans"})
    bench.add(root)
    (root / "secret.md").write_text("fit for everybody")  # private as indexed
    (root / "plan.md").write_text("new plans")
    model = FakeModel(host="embed.example.org")
    run(bench, model)
    assert model.asked == ["open\nopen words"]


def test_nothing_is_sent_of_a_source_that_is_off_until_it_is_on_again(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree({"a.md": "open words"}))
    bench.app.registry.edit(source.id, enabled=False)
    model = FakeModel(host="embed.example.org")
    assert (run(bench, model).refused, model.asked) == (1, [])
    bench.app.registry.edit(source.id, enabled=True)
    assert (run(bench, model).refused, model.asked) == (0, ["a\nopen words"])


def test_what_a_manifest_keeps_back_and_what_a_killed_removal_left_is_not_sent(
    bench: Workbench, write_tree: WriteTree
) -> None:
    manifest = '{"mcp_exposed_roots": ["shown/"]}'
    tree = {"vault-manifest.json": manifest, "shown/a.md": "open words", "kept/b.md": "kept words"}
    bench.add(write_tree(tree))
    model = FakeModel(host="embed.example.org")
    run(bench, model)
    assert model.asked == ["a\nopen words"]
    report = embed(bench.app.index, FakeModel("other", "other-1", host="x.example"), bench.settings, budget_s=None)
    assert (report.have, report.refused) == (0, 2)


def test_private_notes_are_embedded_on_this_machine(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(SECRETS))
    assert run(bench, FakeModel()).have == 3


def test_a_private_note_that_is_made_public_is_embedded_then(
    bench: Workbench, write_tree: WriteTree, later: Later
) -> None:
    root = write_tree(SECRETS)
    source = bench.add(root)
    model = FakeModel(host="embed.example.org")
    run(bench, model)
    (root / "secret.md").write_text("hidden words")
    bench.sync(source)
    assert calls(bench, model) == ["secret\nhidden words"]
    assert run(bench, model).refused == 1


# ── another model


def test_the_old_vectors_answer_until_the_new_ones_are_complete(bench: Workbench, write_tree: WriteTree) -> None:
    bench.add(write_tree(NOTES))
    run(bench, FakeModel("old", "old-1"))
    new = FakeModel("new", "new-1", dimensions=48, trouble=lambda _: time.sleep(0.06))
    report = run(bench, new, budget_s=0.1)
    assert not report.answers
    assert report.pending
    assert [s[:2] for s in sets(bench)] == [("old", True), ("new", False)]
    report = run(bench, new)
    assert report.answers
    assert len(new.asked) == 5
    assert sets(bench) == [("new", True, 5, 0, 0)]
    assert {len(vector) for vector in stored(bench).values()} == {48 * 4}


def test_a_model_that_is_given_up_half_way_leaves_the_old_one_as_it_was(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(write_tree(NOTES))
    old = FakeModel("old", "old-1")
    run(bench, old)
    run(bench, FakeModel("new", "new-1"), budget_s=0)
    assert calls(bench, old) == []
    assert sets(bench) == [("old", True, 5, 0, 0)]


def test_notes_that_come_while_another_model_is_built_are_embedded_by_it_before_it_answers(
    bench: Workbench, write_tree: WriteTree
) -> None:
    root = write_tree(NOTES)
    source = bench.add(root)
    run(bench, FakeModel("old", "old-1"))
    new = FakeModel("new", "new-1")

    def trouble(_: Sequence[str]) -> None:
        if len(new.asked) == 5:
            (root / "late.md").write_text("come late")
            other = Workbench(bench.settings.home)
            other.sync(source)
            other.close()

    new.trouble = trouble
    assert run(bench, new).answers
    assert sets(bench) == [("new", True, 6, 0, 0)]


def test_a_source_removed_in_the_middle_of_a_run_leaves_nothing(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(NOTES))
    model = FakeModel()

    def trouble(_: Sequence[str]) -> None:
        if len(model.asked) == 2:
            other = Workbench(bench.settings.home)
            other.app.remove(source.id)
            other.close()

    model.trouble = trouble
    report = run(bench, model)
    assert (report.have, report.pending) == (0, 0)
    assert stored(bench) == {}
    assert counts(bench.settings)["content"] == 0


def ollama(bench: Workbench, url: str, name: str = "made-up", **values: object) -> Workbench:
    """The same state with the settings of a model that a server on loopback runs."""
    return Workbench(bench.settings.home, embedding_model=f"ollama:{name}", embedding_url=url, **values)


def test_a_server_s_new_version_of_its_model_is_noticed_and_embeds_anew(
    bench: Workbench, write_tree: WriteTree, serve: Serve
) -> None:
    bench.add(write_tree(NOTES))
    server = Ollama(digest="aaaa")
    url = serve(server).url
    assert ollama(bench, url).embed().embedded == 5
    assert ollama(bench, url).embed().embedded == 0
    server.digest = "bbbb"
    report = ollama(bench, url).embed()
    assert (report.embedded, report.answers) == (5, True)


def test_a_server_on_this_machine_is_given_one_text_at_a_time_so_that_a_kill_loses_one(
    bench: Workbench, write_tree: WriteTree, serve: Serve
) -> None:
    bench.add(write_tree(NOTES))
    sizes: list[int] = []

    def say(texts: Sequence[str]) -> None:
        sizes.append(len(texts))

    ollama(bench, serve(Ollama(say=say)).url).embed()
    assert set(sizes) == {1}


def test_a_server_that_is_away_while_nothing_is_missing_is_no_trouble(
    bench: Workbench, write_tree: WriteTree, serve: Serve
) -> None:
    bench.add(write_tree(NOTES))
    server = serve(Ollama())
    ollama(bench, server.url).embed()
    server.stop()
    assert ollama(bench, server.url).embed().state == "done"


def test_a_choice_that_is_taken_back_leaves_no_half_built_set(
    bench: Workbench, write_tree: WriteTree, serve: Serve
) -> None:
    bench.add(write_tree(NOTES))
    hashing = Workbench(bench.settings.home, embedding_model="hashing")
    hashing.embed()
    ollama(bench, serve(Ollama()).url).embed(budget_s=0)
    assert [s[0] for s in sets(bench)] == ["hashing", "ollama:made-up"]
    report = hashing.embed(budget_s=0)
    assert (report.state, report.have, report.answers) == ("done", 5, True)
    assert sets(bench) == [("hashing", True, 5, 0, 0)]
    assert hashing.recall("wombat").receipt.vectors.next is None


def test_a_complete_set_needs_no_server(bench: Workbench, write_tree: WriteTree, serve: Serve) -> None:
    bench.add(write_tree(NOTES))
    server = serve(Ollama())
    ollama(bench, server.url).embed()
    server.stop()
    report = ollama(bench, server.url).embed()
    assert (report.state, report.have, report.pending) == ("done", 5, 0)


def test_a_server_that_fails_at_one_text_alone_keeps_no_other_from_its_vector(
    bench: Workbench, write_tree: WriteTree, serve: Serve
) -> None:
    bench.add(write_tree(NOTES))
    server = Ollama(say=lambda texts: Reply(500) if any("quokka" in text for text in texts) else None)
    served = ollama(bench, serve(server).url)
    for _ in range(3):
        report = served.embed()
    assert (report.have, report.pending, report.refused) == (4, 0, 1)


@pytest.mark.parametrize(
    "bad",
    [b'{"embeddings": [[NaN, 1.0]]}', b'{"embeddings": [[1.0, 2.0]]}', b'{"embeddings": []}', b"{}", b"<html>"],
    ids=["nan", "dimension", "none", "no list", "no json"],
)
def test_vectors_of_the_wrong_kind_are_never_stored(
    bench: Workbench, write_tree: WriteTree, serve: Serve, bad: bytes
) -> None:
    bench.add(write_tree({"a.md": "wombat"}))
    server = Ollama(say=lambda texts: Reply(body=bad) if any("wombat" in text for text in texts) else None)
    report = ollama(bench, serve(server).url).embed()
    assert report.have == 0
    assert report.pending + report.refused == 1
    assert stored(bench) == {}


def test_forcing_a_sync_tries_again_what_was_given_up(bench: Workbench, write_tree: WriteTree, serve: Serve) -> None:
    """As the help of `vade sources sync --force` says."""
    source = bench.add(write_tree(NOTES))
    server = Ollama(say=lambda texts: Reply(400) if any("quokka" in text for text in texts) else None)
    served = ollama(bench, serve(server).url)
    for _ in range(3):
        served.embed()
    assert sets(bench) == [("ollama:made-up", True, 4, 0, 1)]
    server.say = lambda _: None
    served.sync(source)
    assert served.embed().refused == 1
    served.sync(source, force=True)
    assert (served.embed().have, served.embed().refused) == (5, 0)


# ── removal


def test_nothing_of_a_removed_vector_is_left(bench: Workbench, write_tree: WriteTree, tmp_path: Path) -> None:
    source = bench.add(write_tree(NOTES))
    bench.add(write_tree({"x.md": "another source"}, into=tmp_path / "other"))
    run(bench, FakeModel(dimensions=384))
    kept = direction("x\nanother source", 384).tobytes()
    numbers = [vector for vector in stored(bench).values() if vector != kept]
    assert len(numbers) == 5
    home = bench.settings.home
    assert all(files_with(home, vector[start : start + 64]) for vector in numbers for start in (0, 800))
    removal = bench.app.remove(source.id)
    assert removal.proof.clean, removal.proof
    assert removal.purged.vectors == 5
    assert len(removal.purged.numbers) == 5
    for vector in numbers:
        assert files_with(home, *(vector[start : start + 16] for start in range(0, len(vector), 16))) == []
    assert list(stored(bench).values()) == [kept]
    assert files_with(home, kept[:64])


def test_numbers_of_a_removed_vector_that_lie_elsewhere_are_residue(bench: Workbench, write_tree: WriteTree) -> None:
    source = bench.add(write_tree(NOTES))
    run(bench, FakeModel(dimensions=384))
    vector = next(iter(stored(bench).values()))
    (bench.settings.home / "logs").mkdir()
    (bench.settings.home / "logs" / "dump").write_bytes(b"x" * 99 + vector)
    proof = bench.app.remove(source.id).proof
    assert not proof.clean
    assert [Path(file).name for file, _ in proof.residue] == ["dump"]


@pytest.mark.parametrize("text", ["wombat", "a", "x y", "# T\n\nThe wombat digs at night, and sleeps by day."])
def test_a_vector_of_mostly_zeros_is_no_false_alarm(vade_home: Path, write_tree: WriteTree, text: str) -> None:
    """A short text has few features, and a stretch of zeros stands in any file."""
    bench = Workbench(vade_home, embedding_model="hashing")
    source = bench.add(write_tree({f"n{i}.md": f"{text} {i}" for i in range(5)}))
    bench.embed()
    proof = bench.app.remove(source.id).proof
    bench.close()
    assert proof.clean, proof


def test_a_vector_that_another_source_shares_stays_and_is_no_residue(
    bench: Workbench, write_tree: WriteTree, tmp_path: Path
) -> None:
    source = bench.add(write_tree(NOTES))
    bench.add(write_tree(NOTES, into=tmp_path / "other"))
    run(bench, FakeModel())
    removal = bench.app.remove(source.id)
    assert removal.proof.clean, removal.proof
    assert (removal.purged.vectors, len(stored(bench))) == (0, 5)


REMOVE = """
import sys
sys.modules["sqlite_vec"] = None
from vademecum import config
from vademecum.app import Vademecum
app = Vademecum(config.load())
removal = app.remove(sys.argv[1])
print(removal.proof.clean, removal.purged.vectors, app.index.vectors.has_extension())
"""


def test_a_mirror_made_with_sqlite_vec_is_emptied_by_a_removal_without_it(
    bench: Workbench, write_tree: WriteTree
) -> None:
    pytest.importorskip("sqlite_vec", reason="sqlite-vec is not installed")
    source = bench.add(write_tree(NOTES))
    run(bench, FakeModel(dimensions=384))
    assert bench.app.index.vectors.has_extension()
    numbers = list(stored(bench).values())
    bench.close()
    home = bench.settings.home
    done = run_python(["-c", REMOVE, source.id], env={"VADE_HOME": str(home)}, cwd=home.parent)
    assert (done.out, done.err) == ("True 5 False\n", "")
    pieces = [vector[start : start + 16] for vector in numbers for start in range(0, len(vector), 16)]
    assert files_with(home, *pieces) == []


# ── a damaged index


def test_a_damaged_index_is_built_anew_and_its_vectors_are_to_be_made_again(
    bench: Workbench, write_tree: WriteTree
) -> None:
    bench.add(write_tree(NOTES))
    hashing = Workbench(bench.settings.home, embedding_model="hashing")
    hashing.embed()
    bench.close()
    hashing.close()
    path = bench.settings.index_file
    path.write_bytes(b"no database" * 2000)
    assert hashing.found("wombat")[0] == "wombat.md"
    assert hashing.recall("wombat").receipt.vectors.have == 0
    report = hashing.embed()
    assert (report.state, report.have) == ("done", 5)
    hashing.close()


def test_a_vector_cut_short_is_a_damaged_index_too(bench: Workbench, write_tree: WriteTree) -> None:
    import apsw

    bench.add(write_tree(NOTES))
    hashing = Workbench(bench.settings.home, embedding_model="hashing")
    hashing.embed()
    stranger = apsw.Connection(str(bench.settings.index_file))
    stranger.execute("update vector set embedding = zeroblob(10) where id = 2")
    stranger.close()
    bench.close()
    assert hashing.found("wombat")[0] == "wombat.md"
    assert any("quarantine" in line for line in hashing.told)
    assert hashing.embed().have == 5
    hashing.close()
