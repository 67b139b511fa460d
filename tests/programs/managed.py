# A Python program for probes: for each line with a number it reads an integer so often, calls a function of its own from native
# code so often, and collects its garbage once; it prints `calls=TOTAL`, and ends with exit code 7 at the end of its input.
import gc
import sys


def own(number):
    return number * 3 + 1


def run(count):
    for _ in map(own, range(count)):
        int('12', 7)
    try:
        raise ValueError(count)
    except ValueError:
        gc.collect()
    # The interpreter tells others of its calls (usdt:python:function__entry) only while it does so itself.
    sys.setprofile(lambda *call: None)
    own(count)
    sys.setprofile(None)


print("ready", flush=True)
total = 0
gc.disable()
for line in sys.stdin:
    run(int(line))
    total += int(line)
    print(f"calls={total}", flush=True)
sys.exit(7)
