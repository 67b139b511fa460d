//! Which implementation of an indirect function (IFUNC) programs use on this machine.
//!
//! In: the file that has the function, its name. Out: where in the file the chosen one is. The choice is the processor's, made by a resolver when a
//! program starts, so each process that maps the file has made the same one; weir's own is looked at, in the pointers that its files call the
//! function through. None where weir does not map the file, or calls no function of this name.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use weir_symbols::{Binary, LinkAddr, VirtAddr, maps};

/// Where the implementation is that this process was given for `name` of `binary`.
pub(super) fn chosen(binary: &Binary, name: &str) -> Option<LinkAddr> {
    let mappings = maps::read(std::process::id()).ok()?;
    let file = maps::identity_of(&mappings, binary, binary.path())?;
    let memory = File::open("/proc/self/mem").ok()?;
    let mut paths: Vec<&str> = mappings
        .iter()
        .filter(|mapping| mapping.execute && mapping.inode != 0)
        .map(|mapping| &*mapping.path)
        .collect();
    paths.dedup();
    paths.iter().find_map(|path| {
        let user = Binary::open(path.as_ref()).ok()?;
        let slot = user.symbol_slots().into_iter().find(|slot| slot.name == name)?;
        let identity = maps::identity_of(&mappings, &user, user.path())?;
        let bias = maps::load_bias(&mappings, identity, &user)?;
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, slot.address.0.wrapping_add(bias)).ok()?;
        maps::to_link(&mappings, file, binary, VirtAddr(u64::from_le_bytes(word)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_implementation_of_memcpy_is_found() {
        let mappings = maps::read(std::process::id()).unwrap();
        let libc = mappings.iter().find(|mapping| mapping.path.ends_with("libc.so.6")).unwrap();
        let libc = Binary::open(libc.path.as_ref()).unwrap();
        let resolver = libc.find("memcpy").unwrap()[0].address;
        let chosen = chosen(&libc, "memcpy").unwrap();
        assert!(chosen != resolver && libc.bytes(chosen, 16).is_some(), "{chosen} {resolver}");
        assert_eq!(super::chosen(&libc, "no such function"), None);
    }
}
