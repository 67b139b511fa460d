//! What functions take and give back, as compilers write it down.

use std::collections::BTreeSet;

use testkit::target::{self, Source};
use weir_symbols::Binary;
use weir_symbols::prototypes::{Kind, Passed, Prototype};

const TEXT: &str = "\
#include <stdint.h>
#define KEPT __attribute__((noipa))
#define SEEN __asm__ volatile(\"\" ::: \"memory\")
enum mood { CALM, LOUD = 200, HIGH = 3000000000u };
enum turn { LEFT = -1, RIGHT = 1 };
typedef const char *text;
typedef uint16_t port;
struct small { int a, b; };
struct large { long a[4]; };
KEPT int plain(int8_t a, uint16_t b, int c, unsigned long d) { SEEN; return a + b + c + (int)d; }
KEPT void texts(text a, char *b, unsigned char *c, void *d, int *e, const text *f) {
    SEEN; (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; }
KEPT enum mood enums(enum turn a, const volatile enum mood b, port c, _Bool d) { SEEN; return a + c + d ? b : CALM; }
KEPT double mixed(float a, int b, double c, long d) { SEEN; return a + b + c + d; }
KEPT long many(long a, long b, long c, long d, long e, long f, short g, char *h) {
    SEEN; return a + b + c + d + e + f + g + *h; }
KEPT long by_value(int a, struct small b, int c, double d) { SEEN; return a + b.a + c + (long)d; }
KEPT long behind_large(int a, struct large b, int c) { SEEN; return a + b.a[0] + c; }
KEPT struct large gives_large(int a, char *b) { SEEN; struct large out = {{a, *b, 0, 0}}; return out; }
KEPT struct small gives_small(int a) { SEEN; struct small out = {a, a}; return out; }
KEPT int wide(long double a, int b, double c) { SEEN; return (int)a + b + (int)c; }
KEPT int called(int (*a)(int), int b[], const char *c, ...) { SEEN; return a(b[0]) + *c; }
static __attribute__((noinline)) int clone_of(struct small *a, int b) { SEEN; return a->a + b; }
static inline __attribute__((always_inline)) int twice(int n) { return n + n; }
int main(int argc, char **argv) {
    struct small s = {argc, 2};
    struct large l = {{argc, 2, 3, 4}};
    texts(argv[0], argv[0], 0, argv, &argc, (const text *)argv);
    return plain(1, 2, argc, 4) + enums(LEFT, LOUD, 3, 1) + (int)mixed(1, argc, 3, 4)
        + (int)many(1, 2, 3, 4, 5, 6, 7, argv[0]) + (int)by_value(1, s, argc, 2) + (int)behind_large(1, l, argc)
        + (int)gives_large(argc, argv[0]).a[0] + gives_small(argc).a + wide(1, argc, 2) + called(0, &argc, \"\")
        + clone_of(&s, argc) + twice(argc);
}
";

const FLAGS: [&[&str]; 5] = [
    &["-O2", "-g"],
    &["-O0", "-g"],
    &["-O2", "-g", "-gdwarf-4", "-no-pie", "-fno-pie"],
    &["-O2", "-g", "-flto"],
    &["-O2", "-g", "-freorder-blocks-and-partition", "-static"],
];

fn binary(flags: &[&str]) -> Binary {
    Binary::open(&target::build("prototypes", Source::Text(TEXT), flags)).unwrap()
}

fn prototype(binary: &Binary, name: &str) -> Option<Prototype> {
    let address = binary.find(name).unwrap_or_else(|error| panic!("{error}"))[0].address;
    binary.prototypes(&BTreeSet::from([address])).remove(&address)
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Int { bytes, signed } => format!("{}{}", if *signed { "i" } else { "u" }, 8 * bytes),
        Kind::Enum { bytes, signed, labels } => {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
            format!("enum {}{} {}", if *signed { "i" } else { "u" }, 8 * bytes, labels.join(" "))
        }
        Kind::Float { bytes } => format!("f{}", 8 * bytes),
        Kind::Text => "text".to_owned(),
        Kind::Counted(_) => "counted".to_owned(),
        Kind::Untyped => "untyped".to_owned(),
        Kind::Pointer => "pointer".to_owned(),
        Kind::Other(what) => (*what).to_owned(),
    }
}

/// `a: i32 in rdi`, one for each parameter, then the result.
fn shown(prototype: &Prototype) -> Vec<String> {
    let parameter = |p: &weir_symbols::prototypes::Parameter| {
        let name = p.name.as_deref().unwrap_or("?");
        let place = match p.place {
            Ok(Passed::Register(number)) => {
                ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8", "r9"][usize::from(number)].to_owned()
            }
            Ok(Passed::Vector(number)) => format!("xmm{number}"),
            Ok(Passed::Stack(at)) => format!("{at}(sp)"),
            Err(_) => "?".to_owned(),
        };
        format!("{name}: {} {place}", kind(&p.kind))
    };
    let result = prototype.result.as_ref().map_or_else(|| "void".to_owned(), kind);
    prototype.parameters.iter().map(parameter).chain([result]).collect()
}

#[track_caller]
fn check(name: &str, expected: &[&str]) {
    for flags in FLAGS {
        let binary = binary(flags);
        let found = prototype(&binary, name).unwrap_or_else(|| panic!("{flags:?}: {name} has none"));
        assert_eq!(shown(&found), expected, "{flags:?}: {name}");
    }
}

#[test]
fn integers_have_their_width_their_sign_and_a_register() {
    check("plain", &["a: i8 di", "b: u16 si", "c: i32 dx", "d: u64 cx", "i32"]);
    check(
        "many",
        &[
            "a: i64 di",
            "b: i64 si",
            "c: i64 dx",
            "d: i64 cx",
            "e: i64 r8",
            "f: i64 r9",
            "g: i16 8(sp)",
            "h: text 16(sp)",
            "i64",
        ],
    );
}

#[test]
fn addresses_of_characters_are_text_and_others_are_not() {
    check(
        "texts",
        &[
            "a: text di",
            "b: text si",
            "c: untyped dx",
            "d: untyped cx",
            "e: pointer r8",
            "f: pointer r9",
            "void",
        ],
    );
    check("called", &["a: pointer di", "b: pointer si", "c: text dx", "i32"]);
}

#[test]
fn enumerations_have_labels() {
    check(
        "enums",
        &[
            "a: enum i32 LEFT=-1 RIGHT=1 di",
            "b: enum u32 CALM=0 LOUD=200 HIGH=3000000000 si",
            "c: u16 dx",
            "d: u8 cx",
            "enum u32 CALM=0 LOUD=200 HIGH=3000000000",
        ],
    );
}

#[test]
fn floating_point_numbers_have_registers_of_their_own() {
    check("mixed", &["a: f32 xmm0", "b: i32 di", "c: f64 xmm1", "d: i64 si", "f64"]);
    check("wide", &["a: a floating-point number of this size ?", "b: i32 di", "c: f64 ?", "i32"]);
}

#[test]
fn behind_a_struct_that_may_be_in_registers_places_are_not_known() {
    check("by_value", &["a: i32 di", "b: a struct ?", "c: i32 ?", "d: f64 ?", "i64"]);
    check("behind_large", &["a: i32 di", "b: a struct ?", "c: i32 si", "i64"]);
    check("gives_large", &["a: i32 si", "b: text dx", "a struct"]);
    check("gives_small", &["a: i32 ?", "a struct"]);
}

#[test]
fn a_prototype_is_shown_as_a_declaration() {
    let binary = binary(FLAGS[0]);
    let shown = |name: &str| prototype(&binary, name).unwrap().to_string();
    assert_eq!(shown("plain"), "(int8 a, uint16 b, int32 c, uint64 d) int32");
    assert_eq!(shown("enums"), "(enum a, enum b, uint16 c, uint8 d) enum");
    assert_eq!(shown("by_value"), "(int32 a, a struct b, int32 c, double d) int64");
    assert!(shown("texts").starts_with("(string a, string b, pointer c, "), "{}", shown("texts"));
}

#[test]
fn what_a_compiler_has_made_of_a_function_for_itself_has_none() {
    let binary = binary(FLAGS[0]);
    for function in
        binary.functions().iter().filter(|f| f.name.contains(".isra.") || f.name.contains(".constprop."))
    {
        assert_eq!(prototype(&binary, &function.name), None, "{}", function.name);
    }
    assert!(prototype(&binary, "main").is_some());
}

#[test]
fn without_debug_information_nothing_is_known() {
    let binary = binary(&["-O2", "-g0"]);
    assert_eq!(prototype(&binary, "plain"), None);
}

#[test]
fn methods_take_their_object_and_instances_what_they_are_instances_of() {
    if !target::is_installed("g++") {
        return testkit::skip::skip("g++", "not installed; methods are not tested");
    }
    let text = "struct box { long n; __attribute__((noinline)) long add(int by, const char *why) const; };
        long box::add(int by, const char *why) const { __asm__ volatile(\"\" ::: \"memory\"); return n + by + *why; }
        int main(int argc, char **argv) { box b{argc}; return (int)b.add(argc, argv[0]); }";
    for optimization in ["-O0", "-O2"] {
        let path = target::build_with("g++", "methods", Source::Text(text), &[optimization, "-g"]);
        let binary = Binary::open(&path).unwrap();
        let found = prototype(&binary, "_ZNK3box3addEiPKc").expect("it is known");
        assert_eq!(
            shown(&found),
            ["this: pointer di", "by: i32 si", "why: text dx", "i64"],
            "{optimization}"
        );
    }
}
