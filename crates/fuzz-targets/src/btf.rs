//! Any bytes as BTF, and as `.BTF.ext`: every look-up ends, and what was read is written back bit for bit.

use weir_ebpf::btf::Btf;
use weir_ebpf::btf::core::Target;
use weir_ebpf::btf::ext::{CoreRelocation, Ext};

/// Types that are asked about; each question is bounded by itself, and there may be a million types.
const TYPES: usize = 64;

/// Reads bytes as BTF and as `.BTF.ext`.
pub fn read(bytes: &[u8]) {
    let _ = Ext::parse(bytes);
    let Ok(btf) = Btf::parse(bytes) else { return };
    assert_eq!(Btf::parse(&btf.to_bytes()).as_ref(), Ok(&btf));
    let target = Target::new(&btf);
    let _ = btf.section_variables(".maps");
    for (id, ty) in btf.types().take(TYPES) {
        let _ = (btf.resolve(id), btf.size_of(id), btf.describe(id), btf.name(ty.name), btf.text(ty.name));
        let _ = ty.members().count();
        // The name of each type as the access string of a question of each kind.
        for kind in 0..13 {
            let relocation = CoreRelocation { slot: 0, ty: id, access: ty.name, kind };
            let _ = target.answer(&btf, &relocation);
        }
    }
}
