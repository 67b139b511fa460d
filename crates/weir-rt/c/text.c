/*
 * Text: strncmp, and the formats of snprintf, trace_printk and trace_vprintk.
 *
 * What a format may hold is what bpf-helpers(7) and the kernel's documentation of printk formats say: %d %i %u %x %X
 * with l or ll, %c, %s (%pks, %pus), %p (%px, %pK, %pS, %ps, %pB), %pi4 %pI4 %pi6 %pI6, %%, each with - + 0 space and a
 * width. Anything else is -EINVAL. Two things are otherwise than in the kernel: a plain %p prints the address, which
 * is the process's own and no secret to it; and where the kernel would name a symbol, the address stands, as it does
 * there for one without a symbol.
 *
 * Formats may lie in shared memory: each byte is looked at once, inside its bounds, and printed as it is checked.
 * Strings are read like any memory of the process, so that a bad address is an empty string.
 */
#include "weir.h"

enum { TEXT_MAX = 512, STRING_MAX = 256, WORDS_MAX = 12, PRINTK_WORDS = 3, WIDTH_MAX = 1 << 20 };

/* Where text goes: what does not fit is counted, not written. */
struct sink { u8 *to; u64 room; u64 length; };
struct format { const u8 *text; u64 bytes; u64 at; };
struct words { const u64 *all; u64 count; u64 next; };
/* What stands between the % and the letter. */
struct spec { u8 left, plus, space, zero; u64 width; };

INLINE void put(struct sink *sink, u8 byte)
{
    if (sink->length + 1 < sink->room)
        *(volatile u8 *)(sink->to + sink->length) = byte;
    sink->length++;
}
static void put_times(struct sink *sink, u8 byte, u64 times)
{
    u64 after = sink->length + times;
    while (sink->length < after && sink->length + 1 < sink->room)
        put(sink, byte);
    sink->length = after;
}
static void finish(struct sink *sink)
{
    if (sink->room)
        *(volatile u8 *)(sink->to + (sink->length < sink->room ? sink->length : sink->room - 1)) = 0;
}

/* The byte `ahead` behind the one that comes next; 0 where the format ends. */
INLINE u8 peek(const struct format *format, u64 ahead)
{
    u64 at = format->at + ahead;
    return at < format->bytes ? *(const volatile u8 *)(format->text + at) : 0;
}
INLINE int is_space(u8 c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
INLINE int is_digit(u8 c) { return c >= '0' && c <= '9'; }
INLINE int is_letter(u8 c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
/* Bytes above 127 are parts of characters in UTF-8. */
INLINE int is_printed(u8 c) { return (c >= ' ' && c != 127) || is_space(c); }
/* What may follow a conversion that takes no more letters. */
INLINE int ends(u8 c) { return c == 0 || is_space(c) || (is_printed(c) && c < 128 && !is_digit(c) && !is_letter(c)); }

static void put_padded(struct sink *sink, const struct spec *spec, const u8 *text, u64 bytes)
{
    u64 padding = spec->width > bytes ? spec->width - bytes : 0;
    if (!spec->left)
        put_times(sink, ' ', padding);
    for (u64 n = 0; n < bytes; n++)
        put(sink, text[n]);
    if (spec->left)
        put_times(sink, ' ', padding);
}

/* `sign`: 0 for none. */
static void put_number(struct sink *sink, const struct spec *spec, u64 value, u32 base, u8 ten, u8 sign)
{
    u8 digits[20];
    u32 count = 0;
    do {
        u8 digit = (u8)(value % base);
        digits[count++] = digit < 10 ? '0' + digit : ten + digit - 10;
        value /= base;
    } while (value);
    u64 bytes = count + (sign ? 1u : 0u);
    u64 padding = spec->width > bytes ? spec->width - bytes : 0;
    if (!spec->left && !spec->zero)
        put_times(sink, ' ', padding);
    if (sign)
        put(sink, sign);
    if (!spec->left && spec->zero)
        put_times(sink, '0', padding);
    while (count)
        put(sink, digits[--count]);
    if (spec->left)
        put_times(sink, ' ', padding);
}

static void put_signed(struct sink *sink, const struct spec *spec, s64 value)
{
    u8 sign = value < 0 ? '-' : spec->plus ? '+' : spec->space ? ' ' : 0;
    put_number(sink, spec, value < 0 ? -(u64)value : (u64)value, 10, 'a', sign);
}

static void put_string(struct sink *sink, const struct spec *spec, u64 address)
{
    u8 text[STRING_MAX];
    s64 bytes = weir_probe_read_user_str(text, sizeof text, address);
    put_padded(sink, spec, text, bytes > 0 ? (u64)bytes - 1 : 0);
}

/* `kind`: i or I; 4 or 6 as `six` says. Bytes that cannot be read are zeros. */
static void put_address(struct sink *sink, const struct spec *spec, u8 kind, int six, u64 address)
{
    u8 bytes[16], text[40];
    struct sink inner = { text, sizeof text, 0 };
    struct spec plain = { 0, 0, 0, 1, 0 };
    u32 count = six ? 16 : 4;
    weir_probe_read_user(bytes, count, address);
    plain.width = six ? 2 : kind == 'i' ? 3 : 0;
    for (u32 n = 0; n < count; n++) {
        if (n && !six)
            put(&inner, '.');
        if (n && six && kind == 'I' && n % 2 == 0)
            put(&inner, ':');
        put_number(&inner, &plain, bytes[n], six ? 16 : 10, 'a', 0);
    }
    put_padded(sink, spec, text, inner.length);
}

/* What follows "%p". 0, or a negative errno. */
static s64 put_pointer(struct sink *sink, struct format *format, struct spec *spec, u64 value)
{
    u8 kind = peek(format, 0), next = peek(format, 1);
    if ((kind == 'k' || kind == 'u') && next == 's') {
        format->at += 2;
        if (!ends(peek(format, 0)))
            return -EINVAL;
        put_string(sink, spec, value);
        return 0;
    }
    if (kind == 'i' || kind == 'I') {
        if (next != '4' && next != '6')
            return -EINVAL;
        format->at += 2;
        put_address(sink, spec, kind, next == '6', value);
        return 0;
    }
    if (kind == 'S' || kind == 's' || kind == 'B') {
        u8 text[20] = "0x";
        struct sink inner = { text, sizeof text, 2 };
        struct spec plain = { 0, 0, 0, 0, 0 };
        format->at++;
        put_number(&inner, &plain, value, 16, 'a', 0);
        put_padded(sink, spec, text, inner.length);
        return 0;
    }
    if (kind == 'x' || kind == 'K')
        format->at++;
    else if (!ends(kind))
        return -EINVAL;
    if (!spec->width) {
        spec->width = 16;
        spec->zero = 1;
    }
    put_number(sink, spec, value, 16, 'a', 0);
    return 0;
}

static struct spec read_spec(struct format *format)
{
    struct spec spec = { 0, 0, 0, 0, 0 };
    for (;; format->at++) {
        u8 c = peek(format, 0);
        if (c == '-')
            spec.left = 1;
        else if (c == '+')
            spec.plus = 1;
        else if (c == ' ')
            spec.space = 1;
        else if (c == '0')
            spec.zero = 1;
        else
            break;
    }
    for (; is_digit(peek(format, 0)); format->at++)
        if (spec.width < WIDTH_MAX)
            spec.width = spec.width * 10 + (peek(format, 0) - '0');
    return spec;
}

/* What follows a "%" that is no "%%". 0, or a negative errno. */
static s64 put_conversion(struct sink *sink, struct format *format, struct words *words)
{
    struct spec spec = read_spec(format);
    if (words->next >= words->count)
        return -EINVAL;
    u64 value = ((const u64_any *)words->all)[words->next++];
    u32 longs = 0;
    u8 kind = peek(format, 0);
    format->at++;
    if (kind == 'p')
        return put_pointer(sink, format, &spec, value);
    if (kind == 's') {
        if (!ends(peek(format, 0)))
            return -EINVAL;
        put_string(sink, &spec, value);
        return 0;
    }
    if (kind == 'c') {
        u8 byte = (u8)value;
        put_padded(sink, &spec, &byte, 1);
        return 0;
    }
    for (; kind == 'l' && longs < 2; longs++, format->at++)
        kind = peek(format, 0);
    if (kind == 'd' || kind == 'i')
        put_signed(sink, &spec, longs ? (s64)value : (s64)(int)value);
    else if (kind == 'u' || kind == 'x' || kind == 'X')
        put_number(sink, &spec, longs ? value : (u32)value, kind == 'u' ? 10 : 16, kind == 'X' ? 'A' : 'a', 0);
    else
        return -EINVAL;
    return 0;
}

/* The length of the text, of which as much as fits is in the sink; or a negative errno, and no text. */
static s64 print(struct sink *sink, const u8 *text, u64 bytes, const u64 *all, u64 count)
{
    struct format format = { text, bytes, 0 };
    struct words words = { all, count, 0 };
    s64 result = 0;
    while (!result) {
        u8 c = peek(&format, 0);
        if (!c) {
            finish(sink);
            /* Without its NUL it is no string. */
            return format.at < bytes ? (s64)sink->length : -EINVAL;
        }
        format.at++;
        if (c != '%') {
            put(sink, c);
            result = is_printed(c) ? 0 : -EINVAL;
        } else if (peek(&format, 0) == '%') {
            format.at++;
            put(sink, '%');
        } else {
            result = put_conversion(sink, &format, &words);
        }
    }
    sink->length = 0;
    finish(sink);
    return result;
}

INLINE int are_words(const u64 *words, u64 bytes) { return bytes % 8 == 0 && bytes <= 8 * WORDS_MAX && (words || !bytes); }

/* Its length counts the NUL. */
s64 weir_snprintf(u8 *text, u64 size, const u8 *format, const u64 *words, u64 bytes, u64 format_bytes)
{
    struct sink sink = { text, size, 0 };
    if (!are_words(words, bytes)) {
        finish(&sink);
        return -EINVAL;
    }
    s64 length = print(&sink, format, format_bytes, words, bytes / 8);
    return length < 0 ? length : length + 1;
}

/* The text goes to whoever loaded this and wants it; else it is counted as dropped. */
static __attribute__((noinline)) s64 trace(const u8 *format, u64 format_bytes, const u64 *words, u64 count_of_words)
{
    u8 text[TEXT_MAX];
    struct sink sink = { text, sizeof text, 0 };
    s64 length = print(&sink, format, format_bytes, words, count_of_words);
    if (length < 0)
        return length;
    u64 taker = weir_island.print;
    if (taker)
        ((void (*)(const u8 *, u64))taker)(text, sink.length < sizeof text ? sink.length : sizeof text - 1);
    else
        count(COUNT_PRINTS_DROPPED);
    return length;
}

s64 weir_trace_printk(const u8 *format, u64 format_bytes, u64 a, u64 b, u64 c)
{
    u64 words[PRINTK_WORDS] = { a, b, c };
    return trace(format, format_bytes, words, PRINTK_WORDS);
}

s64 weir_trace_vprintk(const u8 *format, u64 format_bytes, const u64 *words, u64 bytes)
{
    if (!are_words(words, bytes))
        return -EINVAL;
    return trace(format, format_bytes, words, bytes / 8);
}

/* `string` ends at its NUL, or where its bytes do. */
s64 weir_strncmp(const u8 *text, u64 size, const u8 *string, u64 unused4, u64 unused5, u64 string_bytes)
{
    (void)unused4;
    (void)unused5;
    for (u64 n = 0; n < size; n++) {
        u8 left = *(const volatile u8 *)(text + n);
        u8 right = n < string_bytes ? *(const volatile u8 *)(string + n) : 0;
        if (left != right)
            return left < right ? -1 : 1;
        if (!left)
            return 0;
    }
    return 0;
}

/* ---- one's complement sums ---- */
INLINE u32 sum_add(u32 a, u32 b)
{
    u32 sum = a + b;
    return sum + (sum < b);
}
/* A last part of four bytes is padded with zeros. */
static u32 sum_of(const u8 *from, u64 bytes, u32 seed)
{
    u32 last = 0;
    u64 at = 0;
    for (; at + 4 <= bytes; at += 4)
        seed = sum_add(seed, *(const u32_any *)(from + at));
    for (u32 n = 0; at + n < bytes; n++)
        last |= (u32) * (const volatile u8 *)(from + at + n) << (8 * n);
    return sum_add(seed, last);
}

/* The sum over `to` less that over `from`, of any sizes and folded to 16 bits, as Linux 6.18 has it. */
s64 weir_csum_diff(const u8 *from, u64 from_size, const u8 *to, u64 to_size, u64 seed)
{
    u32 sum = (u32)seed;
    if (from_size && to_size)
        sum = sum_add(sum_of(to, to_size, sum), ~sum_of(from, from_size, 0));
    else if (to_size)
        sum = sum_of(to, to_size, sum);
    else if (from_size)
        sum = ~sum_of(from, from_size, ~sum);
    sum += sum >> 16 | sum << 16;
    return sum >> 16;
}
