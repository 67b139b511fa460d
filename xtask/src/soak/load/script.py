import bisect, collections, functools, hashlib, itertools, json, re, struct, threading, zlib
from decimal import Decimal, getcontext
@functools.lru_cache(None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def primes(n): return [p for p in range(2, n) if all(p % d for d in range(2, int(p ** 0.5) + 1))]
class Shape:
    def __init__(self, name, **sizes): self.name, self.sizes = name, sizes
    def __repr__(self): return f"{self.name}{sorted(self.sizes.items())}"
def broken(depth):
    try:
        if depth: return broken(depth - 1)
        raise ValueError("deep")
    except ValueError as error:
        return str(error) + str(depth)
    finally:
        depth += 1
getcontext().prec = 60
words = re.findall(r"\w+", "It was the best of times, it was the worst of times " * 50)
print(fib(300), primes(3000)[-5:], Shape("box", w=1, h=2), broken(40))
print(collections.Counter(words).most_common(3), hashlib.sha256(" ".join(words).encode()).hexdigest())
print(json.loads(json.dumps({"a": [1, 2.5, None, "é"], "b": {str(i): i for i in range(50)}}))["b"]["49"])
print(Decimal(2).sqrt(), struct.pack("<IdH", 7, 2.5, 9).hex(), zlib.crc32(zlib.compress(b"weir" * 5000)))
print(sum(1 for _ in itertools.permutations(range(7))), bisect.bisect(list(range(0, 1000, 3)), 500), 3 ** 500 % 1000007)
total, lock = [0], threading.Lock()
def add():
    for _ in range(2000):
        with lock: total[0] += 1
threads = [threading.Thread(target=add) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(total, sorted({x * x % 97 for x in range(500)})[:10], "%s %r %5.2f" % ("x", "y", 1.5), [*map(str.title, words[:3])])
