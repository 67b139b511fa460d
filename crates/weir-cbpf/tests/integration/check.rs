//! What is refused, by which machine, and what is said.

use weir_cbpf::text::{self, Form};
use weir_cbpf::{Insn, Machine, Refusal, check};

/// What userland and the kernel say of a program given as disassembly.
fn refusals(text: &str) -> [Option<(usize, Refusal)>; 2] {
    let insns = text::parse(text, Form::Disassembly).unwrap_or_else(|error| panic!("{error}\n{text}"));
    [Machine::Userland, Machine::Kernel]
        .map(|machine| check(&insns, machine).err().map(|refused| (refused.at, refused.refusal)))
}

#[test]
fn both_refuse_what_neither_runs() {
    let check = |text: &str, at, refusal| assert_eq!(refusals(text), [Some((at, refusal)); 2], "{text}");
    check("", 0, Refusal::Empty);
    check("(000) ld #1", 0, Refusal::NoReturn);
    check("(000) unimp 0xe\n(001) ret #0", 0, Refusal::UnknownCode);
    check("(000) unimp 0x106\n(001) ret #0", 0, Refusal::UnknownCode);
    check("(000) st M[16]\n(001) ret #0", 0, Refusal::Slot);
    check("(000) ldx M[-1]\n(001) ret #0", 0, Refusal::Slot);
    check("(000) div #0\n(001) ret #0", 0, Refusal::DivisionByZero);
    check("(000) mod #0\n(001) ret #0", 0, Refusal::DivisionByZero);
    check("(000) ja 2\n(001) ret #0", 0, Refusal::Outside { target: 2 });
    check("(000) ja -1\n(001) ret #0", 0, Refusal::Outside { target: -1 });
    check("(000) jeq #0 jt 1 jf 2\n(001) ret #0", 0, Refusal::Outside { target: 2 });
}

#[test]
fn the_kernel_alone_refuses() {
    let check = |text: &str, at, refusal| assert_eq!(refusals(text), [None, Some((at, refusal))], "{text}");
    check("(000) ja 0\n(001) ret #0", 0, Refusal::Backward { target: 0 });
    check("(000) lsh #32\n(001) ret #0", 0, Refusal::Shift);
    check("(000) ldb [-1]\n(001) ret #0", 0, Refusal::Ancillary);
    check("(000) ldb [-4095]\n(001) ret #0", 0, Refusal::Ancillary);
    check("(000) ld M[3]\n(001) ret #0", 0, Refusal::NotStored);
    check("(000) jeq #0 jt 2 jf 1\n(001) st M[3]\n(002) ldx M[3]\n(003) ret #0", 2, Refusal::NotStored);
    // What comes after a return counts as reached from it.
    check("(000) ret #0\n(001) ld M[3]\n(002) ret #0", 1, Refusal::NotStored);
}

#[test]
fn both_accept() {
    let check = |text: &str| assert_eq!(refusals(text), [None; 2], "{text}");
    check("(000) ret #0");
    check("(000) ret #0\n(001) ret #1");
    check("(000) lsh #31\n(001) div x\n(002) lsh x\n(003) ret");
    check("(000) ld [-4097]\n(001) ld [vlanp]\n(002) ldb [x + -1]\n(003) ldxb 4*([-1]&0xf)\n(004) ret");
    check("(000) unimp 0x81\n(001) ret #0");
    check("(000) jeq #0 jt 2 jf 1\n(001) st M[3]\n(002) stx M[3]\n(003) ld M[3]\n(004) ret #0");
    check("(000) ja 2\n(001) ld M[3]\n(002) ret #0");
}

#[test]
fn the_kernel_has_a_longest_program() {
    let mut insns = vec![Insn::ret(0); 4096];
    assert!(check(&insns, Machine::Kernel).is_ok());
    insns.push(Insn::ret(0));
    assert!(check(&insns, Machine::Userland).is_ok());
    let refused = check(&insns, Machine::Kernel).unwrap_err();
    assert_eq!(refused.to_string(), "4097 instructions; the kernel takes 4096 at most");
}

#[test]
fn faults_name_the_instruction() {
    let insns = [Insn::load(0, 1), Insn::jump(0x10, 6, 0, 9), Insn::ret(0)];
    let refused = check(&insns, Machine::Userland).unwrap_err();
    assert_eq!(refused.to_string(), "(001) jeq #0x6 jt 2 jf 11: jumps to 11, outside the program");
}
