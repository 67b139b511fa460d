//! Any bytes as an object file or a program: an object that holds together, static probes with what they carry, or an error.
//!
//! The object's own types are also the target's, so that every CO-RE relocation has candidates. What was read is
//! written and read again, where the writer takes it.

use std::path::Path;

use weir_ebpf::btf::core::Target;
use weir_ebpf::{asm, elf};
use weir_symbols::Binary;

/// Reads bytes as a program with static probes, and as an object file.
pub fn read(bytes: &[u8]) {
    if let Ok(binary) = Binary::parse(Path::new("input"), bytes.to_vec()) {
        for probe in binary.static_probes() {
            let schema = probe.schema.iter().flat_map(|schema| &schema.fields);
            assert!(schema.into_iter().all(|field| usize::from(field.slot) < probe.arguments.len()));
        }
    }
    let btf = elf::read_btf(bytes).ok();
    let target = btf.as_ref().map(Target::new);
    let _ = elf::needs_target(bytes);
    let Ok(file) = elf::read_for(bytes, target.as_ref()) else { return };
    let text = asm::print(&file.object);
    assert!(!text.contains('\0'), "text that no terminal shows");
    for (index, program) in file.object.programs.iter().enumerate() {
        for slot in 0..program.insns.len() {
            let _ = file.source_line(index, slot);
        }
    }
    if let Ok(written) = elf::write(&file) {
        let again = elf::read(&written).expect("what weir writes, it reads");
        assert_eq!(again.object.programs.len(), file.object.programs.len());
    }
}
