// The C++ half of foreign.rs: frames that Rust's panics go through, and exceptions that go through Rust's frames.

#include "adversarial.h"

#include <stdexcept>
#include <string>

extern "C" {
void rust_panics(long n);
long rust_passes(long n, long depth);

static long destroyed;
PROBED void cxx_destroys() { CALLED(cxx_destroys); destroyed++; }
}
struct Destroyed {
    ~Destroyed() { cxx_destroys(); }
};

extern "C" {
long cxx_destroyed() { return destroyed; }
void cxx_say_counts() { say_counts(); }

PROBED long cxx_passes(long n, long depth) {
    CALLED(cxx_passes);
    Destroyed one;
    long result = n;
    if (depth) result = cxx_passes(n, depth - 1) + 1;
    else rust_panics(n);
    RETURNED(cxx_passes);
    return result;
}

PROBED void cxx_throws(long n) {
    CALLED(cxx_throws);
    if (n % 3 == 0) throw std::runtime_error(std::to_string(n));
    RETURNED(cxx_throws);
}

PROBED long cxx_catches(long n) {
    CALLED(cxx_catches);
    try {
        return rust_passes(n, n % 5);
    } catch (const std::runtime_error &error) {
        return std::stol(error.what()) * 2;
    }
}
}
