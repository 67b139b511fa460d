//! Any bytes as assembly text: an object, whose text is the same object again, or an error with its line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_ebpf::asm;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(object) = asm::parse(text) else { return };
    let printed = asm::print(&object);
    let again = asm::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again, object, "{printed}");
});
