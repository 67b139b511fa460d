// Exceptions on their way through functions that are probed. The first argument says which way.

#include "adversarial.h"

#include <dlfcn.h>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#define KEEP(value) __asm__ volatile("" : "+r"(value) : : "memory")

static unsigned long destroyed;
struct Destroyed {
    ~Destroyed();
};

extern "C" {
PROBED void destroys() { CALLED(destroys); destroyed++; }

PROBED void throws(long n) {
    CALLED(throws);
    if (n < 0) {
        RETURNED(throws);
        return;
    }
    switch (n % 4) {
    case 0: throw n;
    case 1: throw std::runtime_error("odd " + std::to_string(n));
    case 2: throw std::make_unique<std::string>("pointer");
    default: throw std::vector<long>(n % 5, n);
    }
}

PROBED long passes(long n, long depth) {
    CALLED(passes);
    Destroyed one;
    long result = n;
    if (depth) result = passes(n, depth - 1) + 1;
    else throws(n);
    RETURNED(passes);
    return result;
}

// No handler, nothing to destroy: compilers make nothing for exceptions here.
PROBED long passes_plainly(long n) {
    CALLED(passes_plainly);
    long result = passes(n, n % 6) * 3;
    KEEP(result);
    RETURNED(passes_plainly);
    return result;
}

PROBED long catches(long n) {
    CALLED(catches);
    try {
        return passes_plainly(n);
    } catch (long number) {
        return number;
    } catch (const std::exception &error) {
        return (long)strlen(error.what());
    } catch (const std::unique_ptr<std::string> &text) {
        return (long)text->size();
    } catch (const std::vector<long> &numbers) {
        return (long)numbers.size();
    }
}

PROBED long rethrows(long n, int depth) {
    CALLED(rethrows);
    Destroyed one;
    try {
        long result = depth ? rethrows(n, depth - 1) : passes_plainly(n);
        RETURNED(rethrows);
        return result;
    } catch (const std::runtime_error &) {
        throw;
    } catch (...) {
        Destroyed another;
        throw;
    }
}

// An exception while another is handled, and a new one instead of it.
PROBED long throws_in_handler(long n) {
    CALLED(throws_in_handler);
    try {
        throws(n * 4);
    } catch (long number) {
        number += catches(n + 1);
        throw std::out_of_range("in handler " + std::to_string(number));
    }
    RETURNED(throws_in_handler);
    return 0;
}

PROBED long nests(long n) {
    CALLED(nests);
    try {
        throws_in_handler(n);
    } catch (...) {
        std::exception_ptr kept = std::current_exception();
        try {
            std::rethrow_exception(kept);
        } catch (const std::out_of_range &error) {
            return (long)strlen(error.what());
        }
    }
    return -1;
}

static int attempts;
PROBED long makes() {
    CALLED(makes);
    if (++attempts % 3) throw std::logic_error("not yet");
    RETURNED(makes);
    return attempts;
}
// Initialised by whoever comes when it does not throw any more.
PROBED long is_static() {
    CALLED(is_static);
    static long made = makes();
    RETURNED(is_static);
    return made;
}

PROBED long never_throws(long n) noexcept {
    CALLED(never_throws);
    long result = passes_plainly(n);
    RETURNED(never_throws);
    return result;
}

PROBED long in_thread(long n) {
    CALLED(in_thread);
    long result = passes(n, 2);
    RETURNED(in_thread);
    return result;
}
}

Destroyed::~Destroyed() { destroys(); }

static void throwing() {
    long sum = 0;
    for (long n = 0; n < 2000; n++) sum += catches(n);
    say("sum %ld destroyed %lu\n", sum, destroyed);
}

static void rethrowing() {
    long sum = 0;
    for (long n = 0; n < 500; n++) {
        try {
            sum += rethrows(n, (int)(n % 9));
        } catch (long number) {
            sum += number;
        } catch (const std::exception &error) {
            sum += error.what()[0];
        } catch (...) {
            sum += 7;
        }
        sum += nests(n);
    }
    say("sum %ld destroyed %lu\n", sum, destroyed);
}

static void static_init() {
    int thrown = 0;
    for (int n = 0; n < 10; n++) {
        try {
            KEEP(n);
            say("made %ld\n", is_static());
        } catch (const std::logic_error &) {
            thrown++;
        }
    }
    say("thrown %d\n", thrown);
}

static void terminating() {
    std::set_terminate([] {
        try {
            throw;
        } catch (long number) {
            say("terminated by %ld\n", number);
        }
        say_counts();
        abort();
    });
    never_throws(4);
    say("not reached\n");
}

static void across_threads() {
    long sum = 0;
    for (long n = 0; n < 100; n++) {
        auto result = std::async(std::launch::async, in_thread, n);
        try {
            sum += result.get();
        } catch (long number) {
            sum += number;
        } catch (const std::exception &error) {
            sum += (long)strlen(error.what());
        } catch (...) {
            sum += 3;
        }
    }
    say("sum %ld destroyed %lu\n", sum, destroyed);
}

static void from_many_threads() {
    std::vector<std::thread> threads;
    std::vector<long> sums(8);
    for (size_t i = 0; i < sums.size(); i++)
        threads.emplace_back([i, &sums] { for (long n = 0; n < 300; n++) sums[i] += catches(n + (long)i); });
    for (auto &thread : threads) thread.join();
    long sum = 0;
    for (long each : sums) sum += each;
    say("sum %ld\n", sum);
}

// Nobody catches it: std::terminate is called before anything is destroyed.
static void uncaught() {
    std::set_terminate([] {
        say("uncaught, destroyed %lu\n", destroyed);
        say_counts();
        _exit(3);
    });
    passes_plainly(8);
}

static const struct { const char *name; void (*run)(); } ways[] = {
    {"throw", throwing}, {"rethrow", rethrowing}, {"static-init", static_init}, {"noexcept", terminating},
    {"futures", across_threads}, {"threads", from_many_threads}, {"uncaught", uncaught},
};

int main(int argc, char **argv) {
    begin(argc, argv);
    for (const auto &way : ways)
        if (argc > 1 && !strcmp(argv[1], way.name)) way.run();
    finish();
}
