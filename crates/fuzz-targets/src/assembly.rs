//! Any bytes as assembly text: a file, whose text is the same file again, or an error with its line.

use weir_ebpf::asm;

/// Reads bytes as assembly text.
pub fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(file) = asm::parse_file(text) else { return };
    let printed = asm::print_file(&file);
    let again = asm::parse_file(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again, file, "{printed}");
}
