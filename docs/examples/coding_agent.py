"""A coding agent whose session survives being killed at any moment.

    python docs/examples/coding_agent.py DIR            works on the project in DIR/project
    python docs/examples/coding_agent.py DIR --approve  says yes to what it asked, and goes on

Kill it wherever you like (Ctrl-C, kill -9, the power) and start it again: it goes on where it was,
and no message is sent twice. The model is scripted, so that nothing but durasess is needed; in its
place stands one call of your provider: `context.openai()` or `context.anthropic()` is what it gets.
`DIR/sessions` is the store; look into it with `durasess inspect DIR/sessions/task`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import durasess

BUG = "def double(n):\n    return n + 1\n"
TEST = "from project import double\n\nassert double(2) == 4, double(2)\n"


def main() -> None:
    """One life of the agent."""
    folder = Path(sys.argv[1]).resolve()
    prepare(folder)
    store = open_store(folder)
    # The same call in the first life and in every later one. What the last process left open is
    # settled before it returns: that is in `session.recovery`.
    with store.open_or_create("task", workspace=folder / "project", model="scripted") as session:
        if session.recovery.was_interrupted:
            print("found:", session.recovery)
        if "--approve" in sys.argv:
            for call in session.open_calls:
                if call.status == "waiting":
                    call.approve(by="you")
        work(session, folder / "outbox")


def open_store(folder: Path) -> durasess.Store:
    """What running each tool twice would do. Nothing said means "unsafe": never offered again."""
    store = durasess.Store(folder / "sessions")
    for name in ("read_file", "run_tests", "read_outbox"):
        store.tool(name, effect="read_only")
    store.tool("note_outcome", effect="idempotent")
    return store


def work(session: durasess.Session, outbox: Path) -> None:
    """One life: continue the interrupted run, or begin one, until the model asks for no tool."""
    # A call that may have happened is yours to decide about. Those that are safe to run twice are
    # simply run again; of the others the model is told, and it looks.
    for call in session.open_calls:
        if call.is_offered:
            call.rerun()
    last = session.runs[-1] if session.runs else None
    pending = any(call.status == "pending" for call in session.open_calls)
    if last is None:
        run = session.run("The test fails. Fix it and tell the team.")
    elif last.status != "succeeded":
        run = session.resume_run()
    elif pending:
        run = session.run("You may. Go on.")
    else:
        print("waiting: start me with --approve" if session.open_calls else "done")
        return
    with run:
        while True:
            for call in session.open_calls:
                if call.status == "pending":
                    execute(session, run, call, outbox)
            if any(call.status == "waiting" for call in session.open_calls):
                print("waiting: start me with --approve")
                return
            context = session.context(max_tokens=8000)
            text, calls, usage = model(context)
            print("model:", text)
            run.assistant(text, tool_calls=calls, usage=usage)
            if not calls:
                print("used:", session.usage.total, "tokens")
                return


def execute(session: durasess.Session, run: Any, call: Any, outbox: Path) -> None:
    """Run one tool. The start is durable before the body begins, the result after it; an exception
    in the body is the result too, and the model sees it."""
    given = call.arguments
    if call.name == "patch_file":
        patch_file(session, run, call)
        return
    if call.name == "send_message" and call.state.approved is None:
        run.ask_approval(call.key, "May this be sent?")
        return
    with run.tool(call.key) as running:
        if call.name == "read_file":
            found = session.workspace.read(given["path"])
            running.result({"text": found.text, "version": found.version})
        elif call.name == "run_tests":
            running.result(run_tests(session.workspace.root))
        elif call.name == "read_outbox":
            running.result(outbox.read_text())
        elif call.name == "send_message":
            with outbox.open("a") as file:
                file.write(given["text"] + "\n")
                file.flush()
                os.fsync(file.fileno())
            running.result("sent")
        elif call.name == "note_outcome":
            for other in session.open_calls:
                if other.call_id == given["call_id"] and other.status == "uncertain":
                    other.settle(given["outcome"], by="model")
            running.result("noted")
        else:
            running.fail(f"there is no tool {call.name}")


def patch_file(session: durasess.Session, run: Any, call: Any) -> None:
    """A write is planned first. With its plan in the start of the call, recovery compares the file
    and knows whether it was written; nobody has to ask."""
    given = call.arguments
    try:
        plan = session.workspace.patching(
            given["path"], given["old"], given["new"], expected_version=given["version"]
        )
    except durasess.DurasessError as error:
        with run.tool(call.key) as running:
            running.fail(str(error))
        return
    with run.tool(call.key, plan=plan) as running:
        running.result({"version": plan.apply()})


def run_tests(root: str) -> str:
    """ "ok", or what failed. A real agent would start a process, with a time limit."""
    names: dict[str, Any] = {}
    exec(Path(root, "project.py").read_text(), names)
    try:
        exec(Path(root, "test_project.py").read_text().partition("\n")[2], names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


# -- the model -----------------------------------------------------------------------------


def model(context: durasess.Context) -> tuple[str, list[dict[str, Any]], dict[str, int]]:
    """Text, tool calls and usage: what a provider would answer to `context.messages`.

    It keeps nothing in memory. After an interruption `context.system` has a recovery block, and a
    call whose outcome nobody knows has a result that says so.
    """
    results = {one["call_id"]: one for one in context.messages if one["role"] == "tool"}
    asked = [call for one in context.messages for call in one.get("tool_calls", ())]
    done = [(call, results[call["call_id"]]["content"]) for call in asked]
    name, arguments = decide(done)
    told = " (I was interrupted.)" if "<recovery>" in context.system else ""
    usage = {"prompt_tokens": context.tokens, "completion_tokens": 20}
    if not name:
        return f"The test passes and the team knows.{told}", [], usage
    call = {"call_id": f"call_{len(asked) + 1}", "name": name, "arguments": arguments}
    return f"{name}{told}", [call], usage


def decide(done: list[tuple[dict[str, Any], str]]) -> tuple[str, dict[str, Any]]:
    """The next tool and its arguments, or "" at the end."""
    # What had no effect is as if it had not been asked for. Of each tool: place, call, result.
    done = [one for one in done if not one[1].startswith(("NEVER STARTED", "NOT APPLIED"))]
    newest = {call["name"]: (at, call, result) for at, (call, result) in enumerate(done)}
    nothing: tuple[int, dict[str, Any], str] = (-1, {}, "")

    sent, call, result = newest.get("send_message", nothing)
    if result.startswith("UNKNOWN OUTCOME"):
        looked, _, lines = newest.get("read_outbox", nothing)
        if looked < sent:
            return "read_outbox", {}
        outcome = "applied" if call["arguments"]["text"] in lines.splitlines() else "not_applied"
        return "note_outcome", {"call_id": call["call_id"], "outcome": outcome}
    if result:
        return "", {}

    patched, _, _ = newest.get("patch_file", nothing)
    tested, _, outcome = newest.get("run_tests", nothing)
    if tested <= patched:
        return "run_tests", {}
    if outcome == "ok":
        return "send_message", {"text": "double() doubles again"}
    read, _, content = newest.get("read_file", nothing)
    if read <= patched:
        return "read_file", {"path": "project.py"}
    version = json.loads(content)["version"]
    patch = {"path": "project.py", "old": "n + 1", "new": "n * 2", "version": version}
    return "patch_file", patch


def prepare(folder: Path) -> None:
    """A project with a bug, if there is none yet."""
    (folder / "project").mkdir(parents=True, exist_ok=True)
    (folder / "outbox").touch()
    for name, text in (("project.py", BUG), ("test_project.py", TEST)):
        path = folder / "project" / name
        if not path.exists():
            path.write_text(text)


if __name__ == "__main__":
    main()
