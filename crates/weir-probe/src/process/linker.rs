//! Finds where the dynamic linker of a process tells debuggers that its list of libraries has changed.
//!
//! In: a target. Out: the function that is called then (`r_brk` of `struct r_debug`, link.h), and the word that says
//! whether the list is whole (`r_state`). None where there is no dynamic linker, as in static programs.
//!
//! ```text
//! auxv ─▶ AT_BASE: the linker's file ───────────────────────────▶ its symbol _dl_debug_state
//!      └▶ AT_PHDR: the program's DT_DEBUG ─▶ r_debug ─▶ r_brk     the same, as the linker itself says
//!                                                   └─▶ r_state
//! ```
//!
//! The memory may say anything: an `r_brk` is taken only if a function of the linker's file begins there, an `r_state`
//! only in the linker's own data. A command that has just been launched may have no `r_debug` yet (musl): then the
//! symbol is enough, and nothing is known of the state.

use std::path::Path;

use weir_symbols::{Binary, Function, LinkAddr, VirtAddr};

use crate::process::mapped::owner;
use crate::process::sys;
use crate::process::target::Target;

/// What both glibc and musl call `r_brk`.
const SYMBOL: &str = "_dl_debug_state";
/// More program headers than any program has, and bytes of a dynamic section.
const HEADERS_MAX: u64 = 64;
const DYNAMIC_BYTES_MAX: u64 = 64 << 10;
const HEADER_BYTES: u64 = 56;
/// Offsets in `struct r_debug`.
const BRK: u64 = 16;
const STATE: u64 = 24;

/// The dynamic linker of a process.
#[derive(Debug)]
pub(crate) struct Linker {
    pub(crate) binary: Binary,
    pub(crate) function: Function,
    pub(crate) bias: u64,
    /// Address of `r_state`: 0 while the list is whole.
    pub(crate) state: Option<u64>,
}

pub(crate) fn find(target: &Target) -> Option<Linker> {
    let auxv = Auxv::read(target)?;
    // A linker that was started by hand is the program itself.
    let inside = if auxv.base == 0 { auxv.headers } else { auxv.base };
    let mapping = target.mapping_at(VirtAddr(inside)).filter(|mapping| mapping.inode != 0)?;
    let binary = Binary::open(&target.root().join(mapping.path.trim_start_matches('/'))).ok()?;
    // A static program has these functions too, and loads nothing in the usual way.
    if auxv.base == 0 && binary.soname().is_none() {
        return None;
    }
    let bias = target.bias(&binary)?;
    let debug = debug(target, &auxv);
    let begins =
        |link: LinkAddr| binary.function_at(link).filter(|function| function.address == link).cloned();
    let by_debug = || {
        let at = target.memory.read_u64(debug?.checked_add(BRK)?).ok()?;
        begins(LinkAddr(at.wrapping_sub(bias)))
    };
    let by_symbol = || begins(binary.symbol_value(SYMBOL)?.0);
    let function = by_debug().or_else(by_symbol)?;
    let is_its = |&state: &u64| {
        let at = owner(&target.mappings, state);
        state.is_multiple_of(4) && at.is_some() && at == owner(&target.mappings, inside)
    };
    let state = debug.and_then(|debug| debug.checked_add(STATE)).filter(is_its);
    Some(Linker { binary, function, bias, state })
}

/// Whether this is a dynamic linker itself (musl's is the C library too).
pub(crate) fn announces(binary: &Binary) -> bool {
    binary.symbol_value(SYMBOL).is_some()
}

struct Auxv {
    base: u64,
    headers: u64,
    count: u64,
}

impl Auxv {
    /// getauxval(3): pairs of words, up to a type 0.
    fn read(target: &Target) -> Option<Auxv> {
        const PHDR: u64 = 3;
        const PHNUM: u64 = 5;
        const BASE: u64 = 7;
        let path = format!("/proc/{}/auxv", sys::living_thread(target.pid));
        let bytes = std::fs::read(Path::new(&path)).ok()?;
        let value = |wanted: u64| {
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            let mut pairs = bytes.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
            pairs.find(|pair| pair.0 == wanted).map(|pair| pair.1)
        };
        Some(Auxv { base: value(BASE)?, headers: value(PHDR)?, count: value(PHNUM)?.min(HEADERS_MAX) })
    }
}

/// Address of the program's `r_debug`: what its dynamic section has for DT_DEBUG, once the linker has filled that in.
fn debug(target: &Target, auxv: &Auxv) -> Option<u64> {
    const PT_DYNAMIC: u32 = 2;
    const PT_PHDR: u32 = 6;
    const DT_DEBUG: u64 = 21;
    let mut headers = vec![0; (auxv.count * HEADER_BYTES) as usize];
    target.memory.read(auxv.headers, &mut headers).ok()?;
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    // Of each: type, virtual address, bytes in memory.
    let parts = || {
        headers.chunks_exact(HEADER_BYTES as usize).map(|header| {
            let kind = u32::from_le_bytes(header[..4].try_into().expect("4 bytes"));
            (kind, word(header, 16), word(header, 40))
        })
    };
    let own = parts().find(|part| part.0 == PT_PHDR).map_or(0, |part| auxv.headers.wrapping_sub(part.1));
    let (_, address, bytes) = parts().find(|part| part.0 == PT_DYNAMIC)?;
    let mut dynamic = vec![0; bytes.min(DYNAMIC_BYTES_MAX) as usize];
    target.memory.read(address.wrapping_add(own), &mut dynamic).ok()?;
    let entry = dynamic.chunks_exact(16).find(|entry| word(entry, 0) == DT_DEBUG)?;
    Some(word(entry, 8)).filter(|&debug| debug != 0)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};

    use testkit::target::{Linkage, Source, build};

    use super::*;

    const WAITS: &str =
        "#include <unistd.h>\nint main(void) { char c; write(1, \"x\", 1); return (int)read(0, &c, 1); }";

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A program that waits in its main function.
    fn running(linkage: Linkage) -> (Running, Target) {
        let program = build("linker-waits", Source::Text(WAITS), linkage.flags());
        let mut child = Command::new(program);
        let mut child = Running(child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        child.0.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let target = Target::open(child.0.id() as i32).unwrap();
        (child, target)
    }

    #[test]
    fn what_the_linker_says_is_its_function_and_its_state() {
        for linkage in [Linkage::Pie, Linkage::NoPie] {
            let (_child, target) = running(linkage);
            let linker = find(&target).unwrap();
            assert!(linker.function.names().any(|name| name == SYMBOL), "{:?}", linker.function);
            let mut state = [1; 4];
            target.memory.read(linker.state.unwrap(), &mut state).unwrap();
            assert_eq!(state, [0; 4], "the list is whole");
        }
    }

    #[test]
    fn a_static_program_has_none() {
        assert!(find(&running(Linkage::Static).1).is_none());
    }

    #[test]
    fn an_r_debug_that_lies_is_not_believed() {
        let (_child, target) = running(Linkage::Pie);
        let linker = find(&target).unwrap();
        let debug = linker.state.unwrap() - STATE;
        for brk in [0, 1, u64::MAX, debug, linker.function.address.0.wrapping_add(linker.bias) + 1] {
            target.memory.write(debug + BRK, &brk.to_le_bytes()).unwrap();
            let found = find(&target).unwrap();
            assert_eq!(found.function.address, linker.function.address, "{brk:#x}");
        }
    }
}
