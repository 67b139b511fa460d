"""Logs what a handler may stumble over, and what it must not: tests of logging (docs/logging.md). What is on standard output has to be the
same whether records are traced or not; with "rounds" it logs until its standard input ends, and says how often messages were formatted."""

import logging
import os
import signal
import sys
import threading

log = logging.getLogger("shop.sales")


class Bad:
    def __str__(self):
        raise ValueError("no text")


class Chatty:
    """Its text is made once more where records are traced."""

    log = logging.getLogger("chatty")
    log.propagate = False

    def __str__(self):
        self.log.warning("while another is formatted")
        return "chatty"


class Counted:
    formatted = 0

    def __str__(self):
        Counted.formatted += 1
        return "counted"


def one_of_each():
    # A handler that weir had added would keep this from having an effect.
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(name)s %(funcName)s %(message).40s")
    logging.raiseExceptions = False
    log.warning("sold %d %s", 3, "books")
    log.debug("of a level that the logger does not take")
    log.info("nul \0 and \udc80 and \u2603")
    log.error("bad %s", Bad())
    log.error("bad %d", "number")
    Chatty.log.addHandler(logging.NullHandler())
    log.info("%s", Chatty())
    log.critical("x" * 1000000)
    logging.getLogger("other").warning("of another logger")
    logging.getLogger().handle(logging.makeLogRecord({"msg": "odd", "lineno": "none", "thread": None, "name": 7, "levelno": 30}))
    signal.signal(signal.SIGUSR1, lambda *_: log.info("in a signal handler"))
    signal.raise_signal(signal.SIGUSR1)
    thread = threading.Thread(target=log.info, args=("in a thread",), name="worker")
    thread.start()
    thread.join()
    sys.stdout.flush()
    if os.fork() == 0:
        log.info("in a child")
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    print(__name__, sys.argv[1:], os.path.basename(__file__))
    log.info("last")
    sys.exit(7)


def rounds():
    import weir_logging

    weir_logging.install()
    log.setLevel(logging.INFO)
    log.addHandler(logging.NullHandler())
    log.propagate = False
    for turn, _ in enumerate(sys.stdin):
        log.info("turn %d %s", turn, Counted())
        print(Counted.formatted, flush=True)


rounds() if sys.argv[1:] == ["rounds"] else one_of_each()
