"""Attaches frida's Interceptor with native callbacks (a CModule) to one function of a process.

frida_probe.py PID MODULE OFFSET empty|count|both: says `attached`, waits for the end of standard input, detaches, and
says `count=N`: calls that `count` saw. `both` has an empty callback on entry and one on return.
"""

import sys

import frida

SCRIPT = """
const hits = Memory.alloc(8);
const callbacks = new CModule(`
    #include <gum/guminterceptor.h>
    extern volatile guint64 hits;
    void empty (GumInvocationContext * context) {}
    void count (GumInvocationContext * context) { hits++; }
`, { hits });
const target = Process.getModuleByName('%s').base.add(%s);
const chosen = { empty: { onEnter: callbacks.empty }, count: { onEnter: callbacks.count },
                 both: { onEnter: callbacks.empty, onLeave: callbacks.empty } };
Interceptor.attach(target, chosen['%s']);
Interceptor.flush();
rpc.exports = { count() { return hits.readU64().toString(); } };
"""


def main():
    pid, module, offset, how = sys.argv[1:]
    session = frida.attach(int(pid))
    script = session.create_script(SCRIPT % (module, offset, how))
    script.load()
    print("attached", flush=True)
    sys.stdin.read()
    print("count=" + script.exports_sync.count(), flush=True)
    session.detach()


main()
