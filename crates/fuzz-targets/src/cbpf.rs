//! Any bytes as classic BPF: text of each form, which printed is the same program again; and instructions, which are refused, or
//! run and are converted.

use weir_cbpf::text::{Form, parse, print};
use weir_cbpf::{Machine, check, convert};
use weir_verifier::Limits;

/// Longer programs cost the verifier time, which other targets are about.
const VERIFIED_INSNS_MAX: usize = 200;

/// Reads bytes as a program.
pub fn read(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        for form in [Form::Disassembly, Form::C, Form::Decimal, Form::OneLine] {
            let Ok(insns) = parse(text, form) else { continue };
            let printed = print(&insns, form);
            let again = parse(&printed, form).unwrap_or_else(|error| panic!("{error}\n{printed}"));
            // A line of a disassembly has no room for fields that its instruction does not use.
            assert_eq!(print(&again, form), printed);
        }
    }
    let Ok(insns) = weir_cbpf::text::from_bytes(bytes) else { return };
    for machine in [Machine::Userland, Machine::Kernel] {
        let Ok(program) = check(&insns, machine) else { continue };
        // A program without an end is one.
        let _ = weir_cbpf::run_for(&program, bytes, 128, None, 10_000);
        let Ok(converted) = convert(&program, &weir_cbpf::Target::default()) else { continue };
        if converted.insns.len() <= VERIFIED_INSNS_MAX && machine == Machine::Kernel {
            let verified = weir_verifier::verify(&converted, &[], &Limits::default());
            verified.unwrap_or_else(|rejection| panic!("{rejection}\n{}", print(&insns, Form::Disassembly)));
        }
    }
}
