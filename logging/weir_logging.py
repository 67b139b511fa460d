"""Records of Python's logging as events of weir: lttng_python:event, with the fields that LTTng's agent gives it.

    import weir_logging; weir_logging.install()     every record that a logger accepts
    python3 -m weir_logging PROGRAM ARGUMENT...     the same for a program that knows nothing of it (or -m MODULE)
    class: weir_logging.Handler                     in a logging configuration, those that come to this handler

While nobody traces the event a record costs a look at a word in memory; nothing is formatted. Nothing here raises into the program,
writes to its files or changes its loggers' levels and handlers. Needs libweir-logging.so, beside this file, in ../../lib or where the
dynamic loader looks; without it one line on standard error says so, and nothing else happens. docs/logging.md is the guide.
"""

import ctypes
import logging
import os
import sys
import threading
import time

LIBRARY = "libweir-logging.so"
# weir records 1022 characters of a text: what is far beyond that is not encoded.
TEXT_MAX = 4096
# Records of a thread whose messages are formatted here at the same time. What a __str__ logs while its record is formatted here it logs again
# where a handler of the program's formats it, and is an event then; with more than one each level of such calls would double the work.
NESTED_MAX = 1

_installed = False
# Of records that no event was made of: with attributes that logging does not make, or while another was formatted here.
lost = {"records": 0}


class _Thread(threading.local):
    nested = 0


_thread = _Thread()
# The second of the last record, and how it is written.
_second = (None, "")


def _load():
    """The word that is not 0 while somebody traces, and the function that is the event; or why there are none."""
    own = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(own, LIBRARY), os.path.join(own, "..", "..", "lib", LIBRARY)]
    place = next(filter(os.path.exists, places), LIBRARY)
    try:
        # The interpreter's lock is kept: the call is short.
        library = ctypes.PyDLL(place)
        semaphore = library.weir_logging_python_semaphore
        semaphore.restype = ctypes.c_void_p
        word = ctypes.c_uint16.from_address(semaphore())
        event = library.weir_logging_python
        text, number = ctypes.c_char_p, ctypes.c_uint
        event.argtypes = [text, text, text, text, number, number, ctypes.c_ulong, text]
        event.restype = None
    except Exception as why:
        return (0,), None, why
    return memoryview(word).cast("B").cast("H"), event, None


_word, _event, _why = _load()


def _is_there():
    """Whether there is a library; if not, this is said, once."""
    global _why
    if _why is not None:
        try:
            why = str(_why).replace("\n", " ")
            sys.stderr.write(f"weir_logging: no {LIBRARY}: {why}; records of logging are not events\n")
        except Exception:
            pass
        _why = None
    return _event is not None


def _text(value):
    if value is None:
        return b""
    data = (value if type(value) is str else str(value))[:TEXT_MAX].encode("utf-8", "backslashreplace")
    return data.replace(b"\0", b"\\x00") if b"\0" in data else data


def _number(value):
    return value if isinstance(value, int) else 0


def _message(record):
    try:
        return _text(record.getMessage())
    except Exception as why:
        # What is wrong with it the program's own handlers report.
        raw = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        return _text(f"{raw[:TEXT_MAX // 2]} (not formatted: {type(why).__name__})")


def _asctime(record):
    """As `%(asctime)s` has it. Its text is made once a second."""
    global _second
    second = int(record.created)
    known = _second
    if known[0] != second:
        known = _second = (second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second)))
    return b"%s,%03d" % (known[1].encode(), int(record.msecs))


# What it needs is bound here: while the interpreter ends, names of modules are None.
def _emit(record, thread=_thread, most=NESTED_MAX, lost=lost):
    if thread.nested >= most:
        lost["records"] += 1
        return
    thread.nested += 1
    try:
        _event(
            _asctime(record),
            _message(record),
            _text(record.name),
            _text(record.funcName),
            _number(record.lineno),
            _number(record.levelno),
            _number(record.thread),
            _text(record.threadName),
        )
    except Exception:
        lost["records"] += 1
    finally:
        thread.nested -= 1


def _hook(accepts, word=_word, emit=_emit, is_one=isinstance, kind=logging.LogRecord):
    # What logging calls of a logger right before it hands a record to handlers. It is over by then: handlers that look at the stack
    # see no frame of weir's. From Python 3.12 on it may answer with another record.
    def filter(self, record):
        accepted = accepts(self, record)
        if word[0] and accepted:
            emit(accepted if is_one(accepted, kind) else record)
        return accepted

    return filter


def install():
    """Makes an event of every record that a logger accepts, with any handlers or none. Returns whether that is possible."""
    if not _is_there():
        return False
    global _installed
    if not _installed:
        _installed = True
        # A module that was loaded again finds what the one before it has put there.
        accepts = getattr(logging.Logger.filter, "weir_accepts", logging.Logger.filter)
        hook = _hook(accepts)
        hook.weir_accepts = accepts
        logging.Logger.filter = hook
    return True


class Handler(logging.Handler):
    """For a logging configuration: records that come here are events, unless `install` makes events of all."""

    def __init__(self, level=logging.NOTSET):
        super().__init__(level)
        _is_there()

    def handle(self, record, word=_word, emit=_emit, kind=logging.LogRecord):
        # Without the lock of handlers, which is taken for what they write to.
        if not word[0] or _installed:
            return False
        accepted = self.filter(record)
        if accepted:
            emit(accepted if isinstance(accepted, kind) else record)
        return accepted

    def emit(self, record, word=_word, emit=_emit):
        if word[0]:
            emit(record)


def _run(arguments):
    """Runs a program, or a module, as the interpreter would; the exit code."""
    import pkgutil
    import runpy
    import types

    if not arguments or arguments == ["-m"]:
        sys.stderr.write("usage: python3 -m weir_logging PROGRAM ARGUMENT...   or   -m MODULE ARGUMENT...\n")
        return 2
    install()
    program = arguments[0]
    if program == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    sys.argv[:] = arguments
    if program.endswith(".pyc") or pkgutil.get_importer(program) is not None:
        # Compiled, a folder or an archive.
        runpy.run_path(program, run_name="__main__")
        return 0
    sys.path[0] = os.path.dirname(os.path.realpath(program))
    try:
        with open(program, "rb") as file:
            text = file.read()
    except OSError as why:
        sys.stderr.write(f"weir_logging: can't open file {program!r}: {why}\n")
        return 2
    # It stays the main module until the interpreter ends, which runpy would end before.
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = program, __builtins__
    sys.modules["__main__"] = main
    exec(compile(text, program, "exec", dont_inherit=True), main.__dict__)
    return 0


if __name__ == "__main__":
    # The program may import this module too: it is one.
    import weir_logging

    sys.exit(weir_logging._run(sys.argv[1:]))
