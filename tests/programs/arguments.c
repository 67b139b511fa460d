// Functions with arguments and results of every class of the calling convention: each is called with known values, and
// what it saw and gave is hashed and said.

#include "adversarial.h"

#include <complex.h>
#include <immintrin.h>
#include <stdint.h>

static uint64_t hash = 0xcbf29ce484222325;
__attribute__((noinline)) static void mix(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
}
#define MIX(value) mix(&(value), sizeof(value))
// Of the 16 bytes of a long double 6 mean nothing.
#define MIX_X87(value) mix(&(value), 10)

static void said(const char *what) {
    say("%s %lx\n", what, (unsigned long)hash);
    hash = 0xcbf29ce484222325;
}

struct two { long a, b; };
struct mixed { long a; double b; };
struct floats { float a, b, c; };
struct big { long words[9]; };
struct one_byte { char a; };
struct x87 { long double a; };

PROBED __int128 wide(__int128 a, unsigned __int128 b) { CALLED(wide); return a * 3 + (__int128)(b >> 5); }
PROBED struct two pair(struct two x, long y) { CALLED(pair); return (struct two){x.b + y, x.a ^ y}; }
PROBED struct mixed both(struct mixed x) { CALLED(both); return (struct mixed){x.a + 7, x.b * 0.5}; }
PROBED struct floats three(struct floats x) { CALLED(three); return (struct floats){x.c, x.a, x.b}; }
PROBED struct one_byte tiny(struct one_byte x) { CALLED(tiny); return (struct one_byte){(char)(x.a + 1)}; }
PROBED long double extended(long double a, double b) { CALLED(extended); return a * b + 1; }
PROBED struct x87 wrapped(struct x87 a) { CALLED(wrapped); return (struct x87){a.a / 3}; }
PROBED float complex complex_float(float complex a) { CALLED(complex_float); return a * a; }
PROBED double complex complex_double(double complex a) { CALLED(complex_double); return a * a; }
PROBED long double complex complex_extended(long double complex a) { CALLED(complex_extended); return a * a; }
PROBED float small(float a, double b, float c) { CALLED(small); return (float)(a * b - c); }
PROBED _Bool truth(_Bool a, char b) { CALLED(truth); return !a && b > 3; }

// In memory: a hidden pointer comes in, and goes out as the result.
PROBED struct big hidden(long a, struct big *other) {
    CALLED(hidden);
    struct big result;
    for (int i = 0; i < 9; i++) result.words[i] = a * i + other->words[8 - i];
    return result;
}

PROBED long twelve(long a, long b, long c, long d, long e, long f, long g, long h, int i, char j, short k, long l) {
    CALLED(twelve);
    return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i + 23 * j + 29 * k + 31 * l;
}

PROBED double floating(double a, double b, double c, double d, double e, double f, double g, double h, double i, double j,
    long k, float l) {
    CALLED(floating);
    return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i + 23 * j + (double)k + l;
}

PROBED long by_value(struct big x, long y, struct big z) {
    CALLED(by_value);
    long sum = y;
    for (int i = 0; i < 9; i++) sum = sum * 31 + x.words[i] * z.words[8 - i];
    x.words[3] = 0; // Its own copy.
    __asm__ volatile("" ::"m"(x));
    return sum;
}

PROBED long variadic(const char *kinds, ...) {
    CALLED(variadic);
    va_list values, again;
    va_start(values, kinds);
    va_copy(again, values);
    double sum = 0;
    for (const char *kind = kinds; *kind; kind++) {
        if (*kind == 'd') sum += va_arg(values, double);
        else if (*kind == 'x') sum += (double)va_arg(values, long double);
        else if (*kind == 'b') sum += (double)va_arg(values, struct big).words[4];
        else sum += (double)va_arg(values, long);
    }
    long first = kinds[0] == 'l' ? va_arg(again, long) : 0;
    va_end(again);
    va_end(values);
    return (long)(sum * 8) + first;
}

// al says how many vector registers hold arguments: a caller may leave the others unset.
PROBED int formatted(char *out, size_t bytes, const char *format, ...) {
    CALLED(formatted);
    va_list values;
    va_start(values, format);
    int length = vsnprintf(out, bytes, format, values);
    va_end(values);
    return length;
}

// Stack arguments that a tail call writes over.
PROBED long last(long a, long b, long c, long d, long e, long f, long g, long h) {
    CALLED(last);
    return a - b + c - d + e - f + g - h;
}
PROBED long first(long a, long b, long c, long d, long e, long f, long g, long h) {
    CALLED(first);
    return last(b, a, d, c, f, e, h, g + a);
}

__attribute__((target("avx"))) PROBED __m256d avx(__m256d a, __m256d b, __m256d c) {
    CALLED(avx);
    return _mm256_add_pd(_mm256_mul_pd(a, b), c);
}
__attribute__((target("avx512f"))) PROBED __m512i avx512(__m512i a, __m512i b, __mmask8 mask) {
    CALLED(avx512);
    return _mm512_mask_add_epi64(a, mask, a, b);
}
__attribute__((target("avx"))) static void call_avx(int i) {
    __m256d a = _mm256_set_pd(i, 2, 3, 4), b = _mm256_set1_pd(1.5 * i), c = _mm256_set_pd(1, i, 1, i);
    a = avx(a, b, c);
    MIX(a);
}
__attribute__((target("avx512f"))) static void call_avx512(int i) {
    __m512i a = _mm512_set_epi64(i, 1, 2, 3, 4, 5, 6, 7), b = _mm512_set1_epi64(i * 1000003L);
    a = avx512(a, b, (__mmask8)i);
    MIX(a);
}

static void all(int i) {
    struct big big, other;
    for (int j = 0; j < 9; j++) big.words[j] = i * 3 + j, other.words[j] = i ^ j;
    __int128 w = wide(((__int128)i << 90) + i, ((unsigned __int128)7 << 100) + i);
    MIX(w);
    struct two p = pair((struct two){i, i + 1}, 5);
    MIX(p);
    struct mixed m = both((struct mixed){i, i * 0.25});
    MIX(m);
    struct floats f = three((struct floats){i, i + 0.5f, i * 2});
    MIX(f);
    struct one_byte t = tiny((struct one_byte){(char)i});
    MIX(t);
    long double x = extended(i * 1.1L, 0.1 * i);
    MIX_X87(x);
    struct x87 y = wrapped((struct x87){i});
    MIX_X87(y);
    float complex cf = complex_float(i + 2 * I);
    MIX(cf);
    double complex cd = complex_double(2 - i * I);
    MIX(cd);
    long double complex cx = complex_extended(i * I - 3);
    long double parts[2] = {creall(cx), cimagl(cx)};
    MIX_X87(parts[0]);
    MIX_X87(parts[1]);
    float s = small(i, 2.5, 1);
    MIX(s);
    _Bool b = truth(i & 1, (char)i);
    MIX(b);
    struct big h = hidden(i, &big);
    MIX(h);
    long words[] = {twelve(1, i, 3, 4, 5, 6, 7, i, 9, (char)i, (short)i, 12), by_value(big, i, other),
        variadic("lldxb", (long)i, 2L, 3.5, 4.25L, big), variadic("dddddddddlx", 1., 2., 3., 4., 5., 6., 7., 8., 9., 1L, 2.L),
        variadic("llllllll", 1L, 2L, 3L, 4L, 5L, 6L, 7L, (long)i), first(i, 2, 3, 4, 5, 6, 7, 8)};
    MIX(words);
    double d = floating(1, 2, 3, 4, 5, 6, 7, 8, 9, i, i, 0.5f);
    MIX(d);
    char text[128];
    int length = formatted(text, sizeof text, "%d %s %.3f %Lg %lx %c", i, "text", i / 3., i * 2.5L, i * 77L, 'a' + i % 26);
    mix(text, length);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < 300; i++) all(i);
    said("scalar");
    if (__builtin_cpu_supports("avx")) {
        for (int i = 0; i < 300; i++) call_avx(i);
        said("avx");
    } else {
        say("lacks avx\n");
    }
    if (__builtin_cpu_supports("avx512f")) {
        for (int i = 0; i < 300; i++) call_avx512(i);
        said("avx512");
    } else {
        say("lacks avx512\n");
    }
    finish();
    return 0;
}
