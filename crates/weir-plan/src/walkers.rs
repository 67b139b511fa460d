//! Tells code of runtimes that walk their own stacks, by return addresses: a return address that is another, or a frame between, is a
//! crash there.
//!
//! In: a binary. Out: for each of its functions, whether it is such code, and by what that is known; and whether such a runtime lies in the
//! file, whose other functions (C++) may be called by such code.
//!
//! Known by what the code is, names where a runtime gives exact ones: functions without unwind information in a file whose functions have it
//! (V8's builtins: such code is described by tables of its own; so is some assembly, which is treated the same); between OCaml's symbols of
//! where a unit's code begins and ends; Go's tables. Not told: OCaml without symbols, and code that is made while a program runs, which has no
//! file.

use std::ops::Range;

use weir_symbols::{Binary, Function, FunctionKind, LinkAddr};

/// Where V8's builtins lie, whose size stands beside them.
const V8_CODE: &str = "v8_Default_embedded_blob_code_";
const V8_CODE_SIZE: &str = "v8_Default_embedded_blob_code_size_";

/// Symbols of runtimes in whose files the C and C++ functions are called by code that is walked: HotSpot, V8, OCaml.
const RUNTIMES: [&str; 3] = ["JNI_CreateJavaVM", V8_CODE, "caml_system__code_begin"];

/// Of one binary.
pub(crate) struct Walkers {
    is_go: bool,
    ocaml: Vec<Range<u64>>,
    /// Most functions of the file have unwind information.
    has_tables: bool,
    /// A runtime lies in the file.
    pub(crate) has_runtime: bool,
}

impl Walkers {
    pub(crate) fn of(binary: &Binary) -> Walkers {
        let sized = |function: &&Function| function.size > 0 && function.kind == FunctionKind::Plain;
        let (mut all, mut described) = (0_usize, 0_usize);
        for function in binary.functions().iter().filter(sized) {
            all += 1;
            described += usize::from(is_described(binary, function.address));
        }
        Walkers {
            is_go: binary.is_go(),
            ocaml: ocaml_ranges(binary),
            has_tables: described * 2 > all,
            has_runtime: RUNTIMES.iter().any(|name| binary.symbol_value(name).is_some()),
        }
    }

    /// Whether the stacks that `function` is on are walked by return addresses.
    pub(crate) fn walk(&self, binary: &Binary, function: &Function) -> bool {
        let is_in = |range: &Range<u64>| range.contains(&function.address.0);
        self.is_go
            || self.ocaml.iter().any(is_in)
            || self.has_tables && !is_described(binary, function.address)
    }
}

/// The code of V8's builtins in a binary, if they are there.
pub(crate) fn v8_code(binary: &Binary) -> Option<Range<u64>> {
    let (start, _) = binary.symbol_value(V8_CODE)?;
    let (size, _) = binary.symbol_value(V8_CODE_SIZE)?;
    let size = u32::from_le_bytes(binary.bytes(size, 4)?.try_into().ok()?);
    Some(start.0..start.0.checked_add(u64::from(size))?)
}

/// OCaml's code on stacks that are as small as their functions need (fibers of OCaml 5), which nothing has checked for a probe.
pub(crate) fn on_small_stacks(binary: &Binary) -> Vec<Range<u64>> {
    match binary.symbol_value("caml_try_realloc_stack") {
        Some(_) => ocaml_ranges(binary),
        None => Vec::new(),
    }
}

fn is_described(binary: &Binary, address: LinkAddr) -> bool {
    let frames = binary.frame_ranges();
    let next = frames.partition_point(|range| range.start <= address);
    next.checked_sub(1).is_some_and(|at| frames[at].contains(&address))
}

/// From `camlUnit__code_begin` to `camlUnit__code_end`.
fn ocaml_ranges(binary: &Binary) -> Vec<Range<u64>> {
    const BEGIN: &str = "__code_begin";
    let begins = binary.symbols_between("caml", BEGIN);
    if begins.is_empty() {
        return Vec::new();
    }
    let ends: std::collections::HashMap<String, LinkAddr> =
        binary.symbols_between("caml", "__code_end").into_iter().collect();
    let range = |(name, begin): (String, LinkAddr)| {
        let end = ends.get(&format!("{}__code_end", name.strip_suffix(BEGIN)?))?;
        Some(begin.0..end.0)
    };
    begins.into_iter().filter_map(range).collect()
}
