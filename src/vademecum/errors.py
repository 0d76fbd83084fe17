"""Every error that vademecum raises on purpose.

A foreign exception is translated into one of these once, at the boundary where it arises, so that a surface needs
to know this tree only. Each class carries a stable `code`, on which scripts may rely, and each error a `hint` that
tells a person what to do now. Nothing here prints.

    VadeError
    ├── UsageError               the call's words do not fit together
    ├── OutputFailed             standard output does not take what is printed
    ├── ConfigError              a setting or config.toml
    ├── StateError               the state folder and its lock files
    │   ├── StateReadOnly
    │   └── StateBusy
    ├── SourceError              sources and their list
    │   ├── SourceNotFound
    │   ├── SourceAmbiguous
    │   ├── SourceDisabled
    │   ├── SourceRemoved
    │   ├── SourceRootInvalid
    │   ├── SourceRootNested
    │   ├── SourceRootMissing
    │   ├── SourcesFileCorrupt
    │   └── GlobInvalid
    ├── NoteError                one note
    │   ├── NoteNotFound
    │   ├── NoteAmbiguous
    │   ├── NoteWithheld
    │   ├── NoteUnreadable
    │   │   └── NoteEvicted
    │   └── OutsideRoot
    ├── VaultError               the home vault, as a place to write
    │   ├── VaultMissing
    │   ├── VaultUnwritable
    │   ├── SourceReadOnly
    │   └── SourceIsHome
    ├── MemoryFailure            one memory
    │   ├── MemoryNotFound
    │   ├── MemoryAmbiguous
    │   ├── MemoryRefused
    │   ├── MemoryTwin
    │   ├── MemoryChanged
    │   ├── MemoryPinned
    │   ├── MemoryNotForgotten
    │   └── MemoryForgotten
    ├── IndexFailure             the index file
    │   ├── IndexBusy
    │   ├── IndexCorrupt
    │   └── IndexUnavailable
    ├── ModelError               models, and the servers that embed
    │   ├── ModelUnknown
    │   ├── ModelMissing
    │   ├── ModelDamaged
    │   ├── ModelPullFailed
    │   ├── ConsentMissing
    │   ├── EmbedderDown
    │   └── TextRefused
    ├── DaemonError              the process that serves, as others see it
    │   ├── DaemonNotRunning
    │   ├── DaemonRunning
    │   ├── DaemonFailed
    │   └── PortTaken
    ├── PickerError              the window in which a person chooses a folder
    │   ├── PickerMissing
    │   └── PickerBusy
    └── RequestError             a request that is refused before anything is done
        ├── BadRequest
        ├── HostRefused
        ├── OriginRefused
        ├── TokenMissing
        ├── RouteNotFound
        ├── MethodRefused
        ├── BodyTooLarge
        └── NotJson
"""

from __future__ import annotations

from collections.abc import Sequence


class VadeError(Exception):
    """An error with a stable code and a hint for the person who meets it."""

    code = "error"
    default_hint = ""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint


class UsageError(VadeError):
    """Options or arguments that do not fit together."""

    code = "usage"


class OutputFailed(VadeError):
    """Standard output does not take what is printed."""

    code = "output_failed"
    default_hint = "Check where the output is sent; a disk may be full."


class ConfigError(VadeError):
    """A setting that does not exist, a value of the wrong type, or a config.toml that cannot be read."""

    code = "bad_config"
    default_hint = "`vade config path` names the file; the documentation of settings says what it may hold."


class StateError(VadeError):
    """The state folder cannot be used."""

    code = "state_unusable"


class StateReadOnly(StateError):
    """The state folder does not accept writes."""

    code = "state_read_only"
    default_hint = "Make the state folder writable, or point VADE_HOME at another one."


class StateBusy(StateError):
    """Another process holds a lock of the state folder for longer than we wait."""

    code = "state_busy"
    default_hint = "Another vade command is working; try again when it has finished."


class SourceError(VadeError):
    """Something about a source, or about the list of sources."""

    code = "source_error"


class SourceNotFound(SourceError):
    """No source has this id, id prefix or name."""

    code = "source_not_found"
    default_hint = "`vade sources list` shows all."


class SourceAmbiguous(SourceError):
    """More than one source fits a prefix or a name."""

    code = "source_ambiguous"
    default_hint = "Give the whole id; `vade sources list` shows all."


class SourceDisabled(SourceError):
    """The source is switched off, so it is neither scanned nor searched."""

    code = "source_disabled"
    default_hint = "`vade sources enable ID` switches it on."


class SourceRemoved(SourceError):
    """The source was removed while it was being indexed."""

    code = "source_removed"
    default_hint = "Nothing to do: its rows are gone. Add it again if that was not meant."


class SourceRootInvalid(SourceError):
    """A path that cannot be the root of a source."""

    code = "source_root_invalid"


class SourceRootNested(SourceError):
    """A root that equals, contains or lies inside the root of another source."""

    code = "source_root_nested"
    default_hint = "Every note belongs to one source. `vade sources list` shows what is connected."


class SourceRootMissing(SourceError):
    """The root of a source is not there or cannot be listed: an outage, never a deletion."""

    code = "source_root_missing"
    default_hint = "Mount the drive or restore the folder, then run `vade sources sync`; or remove the source."


class SourcesFileCorrupt(SourceError):
    """sources.json cannot be understood, so nothing may be changed or purged on its word."""

    code = "sources_file_corrupt"
    default_hint = "Repair the file: it was left as it is, and nothing was purged."


class GlobInvalid(SourceError):
    """An exclude glob that could never mean what was hoped."""

    code = "glob_invalid"
    default_hint = "Globs are relative to the source's root, use forward slashes, * and **."


class NoteError(VadeError):
    """Something about one note."""

    code = "note_error"


class NoteNotFound(NoteError):
    """No note answers to this path, heading, block or line range."""

    code = "note_not_found"


class NoteAmbiguous(NoteError):
    """Several notes answer to this path."""

    code = "note_ambiguous"


class NoteWithheld(NoteError):
    """The note exists but is not served to this caller."""

    code = "note_withheld"


class NoteUnreadable(NoteError):
    """The file of a note cannot be read now."""

    code = "note_unreadable"
    default_hint = "Check the file's permissions, or wait until its drive or cloud folder is back."

    def __init__(self, message: str, *, hint: str | None = None, why: str = "") -> None:
        super().__init__(message, hint=hint)
        self.why = why


class NoteEvicted(NoteUnreadable):
    """The content of a note is not on this machine: a cloud holds it, or its drive does not answer."""

    code = "note_evicted"
    default_hint = "Open it in the app of its cloud, or have that keep the folder on this device; then sync."


class OutsideRoot(NoteError):
    """A path that leads, or may lead, out of every source."""

    code = "outside_root"
    default_hint = "Give a path relative to a source's root, as recall prints it."


class VaultError(VadeError):
    """Something about the home vault as the place where memories are written."""

    code = "vault_error"


class VaultMissing(VaultError):
    """The home vault is not there, or none was ever chosen."""

    code = "vault_missing"
    default_hint = "`vade vault use PATH` chooses one; the first `vade remember` makes one where none was chosen."


class VaultUnwritable(VaultError):
    """The home vault does not take what should be written. Nothing half-written is left."""

    code = "vault_unwritable"
    default_hint = "Make the vault's folder writable and free some space, then run it again."


class SourceReadOnly(VaultError):
    """Something that belongs to a source was to be changed."""

    code = "source_read_only"
    default_hint = "Sources are read-only: edit the file itself."


class SourceIsHome(VaultError):
    """The home vault was to be removed as a source."""

    code = "source_is_home"
    default_hint = "`vade vault unset` first; then it can be removed like any source. Its files stay in any case."


class MemoryFailure(VadeError):
    """Something about one memory."""

    code = "memory_error"


class MemoryNotFound(MemoryFailure):
    """No memory that the caller may see answers to this path or title."""

    code = "memory_not_found"
    default_hint = "`vade memories list` shows all that reach here."


class MemoryAmbiguous(MemoryFailure):
    """Several memories have this title."""

    code = "memory_ambiguous"
    default_hint = "Give its path, as `vade memories list` prints it."


class MemoryRefused(MemoryFailure):
    """What should be written breaks the rules for what is written. `reasons` holds all of them; nothing was written."""

    code = "memory_refused"
    default_hint = "Nothing was written. Mend what is named and send it again."

    def __init__(self, reasons: Sequence[str], *, what: str = "not recorded", hint: str | None = None) -> None:
        super().__init__(f"{what}: {'; '.join(reasons)}", hint=hint)
        self.reasons = tuple(reasons)


class MemoryTwin(MemoryFailure):
    """A memory that says nearly the same is there already."""

    code = "memory_twin"
    default_hint = "If it really differs, say so with --force; if it corrects the other, name that with --supersedes."


class MemoryChanged(MemoryFailure):
    """The memory is no longer the version that was to be changed."""

    code = "memory_changed"
    default_hint = "Look at it again, then decide."


class MemoryPinned(MemoryFailure):
    """A pinned memory was to be forgotten."""

    code = "memory_pinned"
    default_hint = "It is pinned because it matters; --force forgets it all the same."


class MemoryNotForgotten(MemoryFailure):
    """A memory was to be restored that is not in the trash."""

    code = "memory_not_forgotten"
    default_hint = "`vade memories list --forgotten` shows what can be restored."


class MemoryForgotten(MemoryFailure):
    """A memory was to be forgotten that is in the trash already."""

    code = "memory_forgotten"
    default_hint = "`vade memories restore` brings it back."


class IndexFailure(VadeError):
    """The index file. It is a cache: deleting it loses time, never knowledge."""

    code = "index_error"


class IndexBusy(IndexFailure):
    """Another process kept the index locked for longer than we wait."""

    code = "index_busy"
    default_hint = "Another vade command is writing; try again when it has finished."


class IndexCorrupt(IndexFailure):
    """The index file is damaged."""

    code = "index_corrupt"
    default_hint = "`vade sources sync` moves it to quarantine and builds a new one from the sources."


class IndexUnavailable(IndexFailure):
    """The index file cannot be opened."""

    code = "index_unavailable"


class ModelError(VadeError):
    """Something about a model that embeds or reranks. Answers go on by words."""

    code = "model_error"


class ModelUnknown(ModelError):
    """No model has this name."""

    code = "model_unknown"
    default_hint = "`vade models list` shows the models; ollama:NAME and openai:NAME name those of a server."


class ModelMissing(ModelError):
    """The model's files are not on this machine, or a library that runs it is not installed."""

    code = "model_missing"
    default_hint = "`vade models pull` fetches it."


class ModelDamaged(ModelError):
    """A file of the model is not, byte for byte, the one it has to be."""

    code = "model_damaged"
    default_hint = "`vade models pull` fetches it again."


class ModelPullFailed(ModelError):
    """None of the places that may hold the model gave it."""

    code = "model_pull_failed"
    default_hint = "Connect to the network and run it again; words are searched meanwhile."


class ConsentMissing(ModelError):
    """Text of notes would leave this machine for a host that nobody agreed to."""

    code = "consent_missing"


class EmbedderDown(ModelError):
    """The server that embeds cannot be reached, does not answer in time, or cannot serve at all."""

    code = "embedder_down"
    default_hint = "Start the server, or choose a local model with `vade models use`."


class TextRefused(ModelError):
    """One text could not be embedded; others may."""

    code = "text_refused"


class DaemonError(VadeError):
    """Something about the daemon."""

    code = "daemon_error"


class DaemonNotRunning(DaemonError):
    """No daemon serves this state folder."""

    code = "daemon_not_running"
    default_hint = "`vade start` starts it."


class DaemonRunning(DaemonError):
    """A daemon serves this state folder already."""

    code = "daemon_running"
    default_hint = "`vade status` shows it, `vade stop` ends it."


class DaemonFailed(DaemonError):
    """The daemon did not start, did not stop, or does not answer."""

    code = "daemon_failed"
    default_hint = "`vade logs` shows what it said last."


class PortTaken(DaemonError):
    """Another program listens on the daemon's port."""

    code = "port_taken"


class PickerError(VadeError):
    """No folder could be chosen."""

    code = "picker_error"


class PickerMissing(PickerError):
    """There is no window to choose a folder in: no graphical session, or no program that opens one."""

    code = "picker_missing"
    default_hint = "Type or paste the path of the folder."


class PickerBusy(PickerError):
    """A window to choose a folder in is open already."""

    code = "picker_busy"
    default_hint = "Choose or cancel there first."


class RequestError(VadeError):
    """A request that cannot be served as it is."""

    code = "request_error"


class BadRequest(RequestError):
    """The body or a parameter is not what the route takes."""

    code = "bad_request"
    default_hint = "docs/http-api.md says what each route takes."


class HostRefused(RequestError):
    """The request names a host that is not this daemon."""

    code = "host_refused"
    default_hint = "Ask 127.0.0.1 or localhost, with the daemon's port."


class OriginRefused(RequestError):
    """A page of another origin made the request."""

    code = "origin_refused"
    default_hint = "Only pages of the daemon itself may call it."


class TokenMissing(RequestError):
    """The request carries no valid token."""

    code = "token_missing"
    default_hint = "Send `Authorization: Bearer` with the content of run/token in the state folder."


class RouteNotFound(RequestError):
    """No route has this path."""

    code = "route_not_found"
    default_hint = "docs/http-api.md lists the routes."


class MethodRefused(RequestError):
    """The route does not take this method."""

    code = "method_refused"
    default_hint = "docs/http-api.md lists the routes."


class BodyTooLarge(RequestError):
    """The body is larger than any that a route takes."""

    code = "body_too_large"


class NotJson(RequestError):
    """The body is not declared as JSON."""

    code = "not_json"
    default_hint = "Send `Content-Type: application/json`."
