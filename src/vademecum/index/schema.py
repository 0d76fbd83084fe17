"""The tables, and the form in which the word indexes see a text.

Every row hangs off `source` by ON DELETE CASCADE: removing a source is one DELETE, and a sync that races a removal
is refused by the foreign key. Ids of sources are never used again, so a late writer cannot reach a newer source.
The two full-text tables keep no text of their own: they index what two views derive from `document` and `chunk`, so
an entry can be taken back exactly, and SQLite itself can check that index and text agree.

The headings and blocks of a note are one row of `outline`, and the views `heading` and `block` give them one by one: a
large vault has a hundred thousand, they come and go with their note, and are only read a note at a time.

What is embedded of a chunk is a `content`, held once however many chunks say it: vectors hang off it, so a note that
moves keeps them, and they go with the last chunk that needs them. `model` counts what came and went of its vectors,
which tells whoever holds a copy of them whether it is still true.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Final

from vademecum.config import SCHEMA_NUMBER

TOKENIZER: Final = "porter unicode61 remove_diacritics 2"

SCHEMA: Final = f"""
create table source (
    id integer primary key autoincrement,
    source_id text not null unique,
    kind text not null,
    root text not null,
    state text not null default 'degraded',
    stale_since text,
    held_since text,
    loss_met integer not null default 0,
    last_indexed_at text,
    policy text,
    ignore_filters text not null default '[]',
    diagnostics text not null default '["the first sync has not finished yet"]',
    skipped text not null default '{{}}'
);
create table folder (
    id integer primary key,
    source integer not null references source(id) on delete cascade,
    parent integer references folder(id),
    path text not null,
    unique (source, path)
);
create index folder_by_parent on folder(parent);
create table document (
    id integer primary key,
    source integer not null references source(id) on delete cascade,
    folder integer references folder(id),
    private integer not null,
    dated integer not null,
    date text not null,
    size integer not null,
    mtime_ns integer not null,
    ctime_ns integer not null,
    inode integer not null,
    settled integer not null,
    path text not null,
    disk_path text not null,
    fingerprint blob not null,
    removed_at text,
    title text not null,
    aliases text not null,
    tags text not null,
    headings text not null,
    properties text not null,
    unique (source, path)
);
create index document_live on document(source) where removed_at is null;
create index document_gone on document(source, removed_at) where removed_at is not null;
create index document_by_folder on document(folder);
create table name (
    name text not null,
    document integer not null references document(id) on delete cascade,
    alias text not null,
    primary key (name, document, alias)
) without rowid;
create index name_by_document on name(document);
create table link (
    document integer not null references document(id) on delete cascade,
    ordinal integer not null,
    line integer not null,
    embed integer not null,
    name text not null,
    target text not null,
    heading text,
    block text,
    label text,
    property text,
    primary key (document, ordinal)
) without rowid;
create index link_by_name on link(name);
create table outline (
    document integer primary key references document(id) on delete cascade,
    headings text not null,
    blocks text not null
);
create table tag (
    document integer not null references document(id) on delete cascade,
    name text not null,
    spelling text not null,
    primary key (document, name)
) without rowid;
create index tag_by_name on tag(name);
create table content (id integer primary key, hash blob not null unique);
create table chunk (
    id integer primary key,
    document integer not null references document(id) on delete cascade,
    content integer not null references content(id),
    ordinal integer not null,
    first_line integer not null,
    last_line integer not null,
    key text not null,
    headings text not null,
    body text not null
);
create index chunk_by_document on chunk(document, ordinal, content);
create index chunk_by_content on chunk(content);
create table model (
    id integer primary key autoincrement,
    identity text not null unique,
    name text not null,
    dimensions integer not null,
    answers integer not null,
    added integer not null default 0,
    removed integer not null default 0
);
create table vector (
    id integer primary key autoincrement,
    model integer not null references model(id) on delete cascade,
    content integer not null references content(id) on delete cascade,
    unread integer not null,
    embedding blob not null,
    unique (content, model)
);
create table refusal (
    content integer not null references content(id) on delete cascade,
    model integer not null references model(id) on delete cascade,
    attempts integer not null,
    reason text not null,
    primary key (content, model)
) without rowid;
create index refusal_by_model on refusal(model);
create trigger vector_added after insert on vector begin
    update model set added = added + 1 where id = new.model;
end;
create trigger vector_removed after delete on vector begin
    update model set removed = removed + 1 where id = old.model;
end;
create table skipped (
    source integer not null references source(id) on delete cascade,
    path text not null,
    reason text not null,
    name text not null,
    primary key (source, path)
) without rowid;
create index skipped_by_name on skipped(name);
create table warning (
    document integer not null references document(id) on delete cascade,
    line integer not null,
    message text not null
);
create index warning_by_document on warning(document);
create table meta (name text primary key, value text not null) without rowid;

create view heading as
    select o.document, h.value->>0 as line, h.value->>1 as level, h.value->>2 as text
    from outline o cross join json_each(o.headings) h;
create view block as
    select o.document, b.key as ordinal, b.value->>1 as first_line, b.value->>2 as last_line, b.value->>0 as name
    from outline o cross join json_each(o.blocks) b;
create view chunk_text as
    select c.id, c.document, lexical_form(d.title) as title, lexical_form(c.headings) as headings,
           lexical_form_with_identifiers(c.body) as body
    from chunk c cross join document d on d.id = c.document;
create view note_text as
    select d.id, d.source, lexical_form(d.title) as title, lexical_form(d.aliases) as aliases,
           lexical_form(d.tags) as tags, lexical_form(d.headings) as headings,
           lexical_form(d.properties || char(10) || coalesce((
               select group_concat(c.body, char(10) order by c.ordinal) from chunk c where c.document = d.id
           ), '')) as body
    from document d where d.removed_at is null;
create virtual table chunk_fts using fts5(
    title, headings, body, content='chunk_text', content_rowid='id', tokenize='{TOKENIZER}');
create virtual table note_fts using fts5(
    title, aliases, tags, headings, body, content='note_text', content_rowid='id', tokenize='{TOKENIZER}');
create virtual table chunk_vocabulary using fts5vocab(chunk_fts, row);
create virtual table note_vocabulary using fts5vocab(note_fts, row);
insert into chunk_fts(chunk_fts, rank) values ('secure-delete', 1);
insert into note_fts(note_fts, rank) values ('secure-delete', 1);
insert into chunk_fts(chunk_fts, rank) values ('automerge', 8);
insert into note_fts(note_fts, rank) values ('automerge', 8);
insert into meta values ('unicode', '{unicodedata.unidata_version}');
pragma user_version = {SCHEMA_NUMBER};
"""

# Scripts written without spaces between words, and Hangul, whose particles cling to the word before them: every
# character is a word of its own, and a run of them in a query becomes a phrase.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Possessive, and bounded at its start: without both, every plain word is tried once for each of its letters.
_IDENTIFIER: Final = re.compile(r"(?a:\b)[A-Za-z0-9]++(?:[-_.][A-Za-z0-9]++)+")
_TELLING: Final = re.compile(r"[\d_.]")
# Private-use characters are word characters to the tokenizer. The last one ends every unsplit identifier, so that
# the stemmer, which looks at a word's end, leaves it alone.
_JOINERS: Final = str.maketrans({"-": "\ue001", "_": "\ue002", ".": "\ue003"})
_END: Final = "\ue000"


def lexical_form(text: str) -> str:
    """The text as the word indexes see it: compatibility forms folded, unspaced scripts spaced out."""
    if text.isascii():
        return text
    return _unspaced().sub(r" \1 ", unicodedata.normalize("NFKC", text))


@functools.cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"([{_UNSPACED}])")  # compiled when first needed: 8 ms that a plain question need not pay


def lexical_form_with_identifiers(text: str) -> str:
    """The lexical form, and after it every identifier of the text (ADR-0042, snake_case, 4.7.13) as one word."""
    whole = [unsplit(name) for name in sorted(set(_IDENTIFIER.findall(text))) if _TELLING.search(name)]
    return f"{lexical_form(text)}\n{' '.join(whole)}" if whole else lexical_form(text)


def unsplit(identifier: str) -> str:
    """An identifier as the one word under which the index holds it."""
    return identifier.translate(_JOINERS) + _END


def is_identifier(word: str) -> bool:
    """Whether the index holds this word unsplit beside its parts."""
    return _IDENTIFIER.fullmatch(word) is not None and _TELLING.search(word) is not None
