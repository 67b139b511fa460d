//! Planning inside functions: where something else than the code before it leads into a window of several instructions,
//! only the first is displaced.

use testkit::target::{self, Source};
use weir_probe::{Place, plan_sites};
use weir_symbols::{Binary, LinkAddr};

const PUNNED: &str = "punned jump over 1 instruction, through an outpost";
const THREE: &str = "jump over 3 instructions";

/// The outcome at the symbol `place` of a program with this assembly: how it is patched, or the reason.
#[track_caller]
fn check(name: &str, text: &str, flags: &[&str], expected: &str) {
    let source = format!("__asm__({text:?});\nint main(void) {{ return 0; }}\n");
    let flags = [&["-O2"], flags].concat();
    let binary = Binary::open(&target::build(name, Source::Text(&source), &flags)).unwrap();
    let (place, _) = binary.symbol_value("place").unwrap();
    let outcome = plan_sites(&[(&binary, Place::Inside(place))]).remove(0);
    let found = outcome.map_or_else(|refusal| refusal.code(), |window| window.technique());
    assert_eq!(found, expected, "{name}");
}

const PIE: &[&str] = &["-fPIE", "-pie"];
const NO_PIE: &[&str] = &["-fno-pie", "-no-pie"];

/// A function `f` in which `place` is a `nop` before `inner` and `rest`.
fn function(rest: &str) -> String {
    format!(
        ".text\n.globl f\n.type f, @function\nf: .cfi_startproc\nmov %rdi, %rax\nplace: nop\ninner: inc %rax\n\
         mov %rax, %rcx\n{rest}\nret\n.cfi_endproc\n.size f, .-f\n"
    )
}

#[test]
fn a_nop_in_straight_code_takes_what_follows() {
    check("inside-plain", &function(""), PIE, THREE);
    check("inside-plain", &function(""), NO_PIE, THREE);
}

#[test]
fn what_branches_into_it_is_seen() {
    check("inside-back", &function("cmp $9, %rax\njb inner"), PIE, PUNNED);
    check("inside-first", &function("cmp $9, %rax\njb place"), PIE, THREE);
    let other = ".globl g\n.type g, @function\ng: .cfi_startproc\njmp inner\n.cfi_endproc\n.size g, .-g\n";
    check("inside-other", &(function("") + other), PIE, PUNNED);
}

/// A `switch` of another function whose table has an entry at `inner`.
fn switch(entry: &str) -> String {
    format!(
        ".globl g\n.type g, @function\ng: .cfi_startproc\nlea table(%rip), %rdx\nmovslq (%rdx,%rdi,4), %rax\n\
         add %rdx, %rax\njmp *%rax\n.cfi_endproc\n.size g, .-g\n\
         .section .rodata\n.balign 4\ntable: .long g-table, {entry}-table\n.long 0x7fffffff\n.text\n"
    )
}

#[test]
fn tables_of_other_functions_are_seen() {
    check("inside-table", &(function("") + &switch("inner")), PIE, PUNNED);
    check("inside-table-first", &(function("") + &switch("place")), PIE, THREE);
}

#[test]
fn pointers_in_data_are_seen() {
    let pointer = ".data\n.balign 8\npointer: .quad inner\n.text\n";
    check("inside-pointer", &(function("") + pointer), PIE, PUNNED);
    check("inside-pointer", &(function("") + pointer), NO_PIE, PUNNED);
}

/// An exception table of `f` that lands at `pad`.
fn lands(pad: &str) -> String {
    format!(
        ".text\n.globl f\n.type f, @function\nf: .cfi_startproc\n.cfi_lsda 0x1b, lsda\nmov %rdi, %rax\nplace: nop\n\
         inner: inc %rax\nmov %rax, %rcx\nret\n.cfi_endproc\n.size f, .-f\n.section .gcc_except_table,\"a\",@progbits\n\
         lsda: .byte 0xff, 0xff, 0x01, 4\n.uleb128 0, 1, {pad}-f, 0\n.text\n"
    )
}

#[test]
fn where_exceptions_land_is_seen() {
    check("inside-lands", &lands("inner"), PIE, PUNNED);
    check("inside-lands-first", &lands("place"), PIE, THREE);
}

#[test]
fn a_place_that_is_no_instruction_is_refused() {
    let binary =
        Binary::open(&target::build("inside-none", Source::Text("int main(void) { return 7; }"), &["-O2"]));
    let binary = binary.unwrap();
    let main = binary.find("main").unwrap()[0].address;
    let code = |address| plan_sites(&[(&binary, Place::Inside(address))]).remove(0).unwrap_err().code();
    assert_eq!(code(LinkAddr(main.0 + 1)), "not-an-instruction");
    assert_eq!(code(LinkAddr(0)), "size-unknown");
}

#[test]
fn of_two_patches_that_overlap_the_first_stays() {
    let source = format!("__asm__({:?});\nint main(void) {{ return 0; }}\n", function(""));
    let binary = Binary::open(&target::build("inside-overlap", Source::Text(&source), &["-O2"])).unwrap();
    let (place, _) = binary.symbol_value("place").unwrap();
    let (inner, _) = binary.symbol_value("inner").unwrap();
    let codes = |places: &[LinkAddr]| -> Vec<String> {
        let sites: Vec<_> = places.iter().map(|&place| (&binary, Place::Inside(place))).collect();
        let outcomes = plan_sites(&sites).into_iter();
        outcomes
            .map(|outcome| outcome.map_or_else(|r| r.code(), |w| format!("{:#x}", w.address - place.0)))
            .collect()
    };
    assert_eq!(codes(&[inner]), ["0x1"]);
    assert_eq!(codes(&[place, place]), ["0x0", "overlap"]);
    assert_eq!(codes(&[place, inner])[0], "0x0");
    assert_eq!(codes(&[place, inner])[1], "overlap");
    assert_eq!(codes(&[inner, place])[0], "0x1");
}
