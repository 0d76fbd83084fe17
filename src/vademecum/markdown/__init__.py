"""What a Markdown file says: properties, headings, links, tags, and the chunks it is searched by.

Pure functions over text, shared by indexing, graph, hygiene and write validation, so that no two parts of the product
read one note differently. The Markdown and YAML parsers load with the first note that is parsed, not with this package.
"""

from vademecum.markdown.block import Block
from vademecum.markdown.chunk import Chunk, cut
from vademecum.markdown.frontmatter import Diagnostic, normalise, read_frontmatter
from vademecum.markdown.note import Heading, Link, Note, block_lines, find_heading, parse, section
from vademecum.markdown.promotion import is_promoted

__all__ = [
    "Block",
    "Chunk",
    "Diagnostic",
    "Heading",
    "Link",
    "Note",
    "block_lines",
    "cut",
    "find_heading",
    "is_promoted",
    "normalise",
    "parse",
    "read_frontmatter",
    "section",
]
