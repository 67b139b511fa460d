//! Names of the kernel's functions, as `/proc/kallsyms` lists them.
//!
//! In: its text. Out: the function that an address is in; where a function or a variable is. Where the reader may not know addresses, the kernel
//! lists zeros, and nothing is known.

use std::fs;
use std::io;

use crate::pattern;

/// Where the kernel lists them.
const KALLSYMS: &str = "/proc/kallsyms";

/// Functions by address.
#[derive(Debug, Default)]
pub struct KernelFunctions {
    /// Start, and where the name lies in `names`; sorted.
    starts: Vec<(u64, u32)>,
    /// `name\tmodule`, each on a line; without a tab it is the kernel's own.
    names: String,
}

/// What an address of the kernel's is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelFunction<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes from its start.
    pub offset: u64,
    /// The module that it is of, if any.
    pub module: Option<&'a str>,
}

impl KernelFunctions {
    /// Those of the running kernel.
    pub fn read() -> io::Result<KernelFunctions> {
        Ok(KernelFunctions::of(&fs::read_to_string(KALLSYMS)?))
    }

    fn of(text: &str) -> KernelFunctions {
        let mut found = KernelFunctions::default();
        for (address, kind, name) in text.lines().filter_map(symbol) {
            if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            // LIMIT: the list has some ten megabytes.
            let Ok(at) = u32::try_from(found.names.len()) else { break };
            found.starts.push((address, at));
            found.names.push_str(name);
            found.names.push('\n');
        }
        // Of several names of one place the first stays the first.
        found.starts.sort_by_key(|(address, _)| *address);
        found
    }

    /// The function that the address is in.
    pub fn at(&self, address: u64) -> Option<KernelFunction<'_>> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let start = self.starts.get(after.checked_sub(1)?)?.0;
        let first = self.starts.partition_point(|(other, _)| *other < start);
        // What lies behind the last one is of nobody.
        if after == self.starts.len() && address != start {
            return None;
        }
        let text = self.names[self.starts[first].1 as usize..].lines().next()?;
        let (name, module) = match text.split_once('\t') {
            Some((name, module)) => (name, Some(module.trim_matches(['[', ']']))),
            None => (text, None),
        };
        Some(KernelFunction { name, offset: address - start, module })
    }
}

/// Address, kind and name of `ffffffff81000000 T startup_64` or `ffffffffc0000000 t f\t[module]`.
fn symbol(line: &str) -> Option<(u64, &str, &str)> {
    let mut words = line.splitn(3, ' ');
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    Some((u64::from_str_radix(address, 16).unwrap_or(0), kind, name))
}

/// Where functions and variables of the running kernel are.
#[derive(Debug)]
pub struct KernelSymbols(String);

/// Why a symbol's address is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoAddress {
    /// There is none of the name; these are near.
    NoSymbol(Vec<String>),
    /// The kernel tells it to root alone.
    Hidden,
}

impl KernelSymbols {
    /// Those of the running kernel.
    pub fn read() -> io::Result<KernelSymbols> {
        Ok(KernelSymbols(fs::read_to_string(KALLSYMS)?))
    }

    /// Where this one is; of several the first that is listed.
    pub fn address(&self, name: &str) -> Result<u64, NoAddress> {
        let all = || self.0.lines().filter_map(symbol);
        match all().find(|(_, _, known)| *known == name) {
            Some((0, ..)) => Err(NoAddress::Hidden),
            Some((address, ..)) => Ok(address),
            None => Err(NoAddress::NoSymbol(pattern::near_misses(name, all().map(|(_, _, name)| name)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000000000 A fixed\nffffffff81000000 T first\nffffffff81000000 t also_first\n\
        ffffffff81000010 D data\nffffffff81000020 t second\nffffffffc0000000 t of_module\t[ext4]\nffffffffc0000100 t end\t[ext4]\n";

    #[track_caller]
    fn check(address: u64, wanted: Option<(&str, u64, Option<&str>)>) {
        let functions = KernelFunctions::of(TEXT);
        let found = functions.at(address).map(|found| (found.name, found.offset, found.module));
        assert_eq!(found, wanted, "{address:#x}");
    }

    #[test]
    fn an_address_is_in_the_function_before_it() {
        check(0xffff_ffff_8100_0000, Some(("first", 0, None)));
        check(0xffff_ffff_8100_001f, Some(("first", 0x1f, None)));
        check(0xffff_ffff_8100_0020, Some(("second", 0, None)));
        check(0xffff_ffff_c000_0010, Some(("of_module", 0x10, Some("ext4"))));
        check(0xffff_ffff_c000_0101, None);
        check(0x1000, None);
    }

    #[test]
    fn a_name_is_that_of_a_function_or_a_variable() {
        let symbols = KernelSymbols(TEXT.to_owned());
        assert_eq!(symbols.address("data"), Ok(0xffff_ffff_8100_0010));
        assert_eq!(symbols.address("second"), Ok(0xffff_ffff_8100_0020));
        assert_eq!(symbols.address("fixed"), Err(NoAddress::Hidden));
        assert_eq!(symbols.address("secund"), Err(NoAddress::NoSymbol(vec!["second".to_owned()])));
    }

    #[test]
    fn where_addresses_are_hidden_nothing_is_known() {
        let hidden = KernelFunctions::of("0000000000000000 T first\n0000000000000000 T second\n");
        assert_eq!(hidden.at(0xffff_ffff_8100_0000), None);
    }
}
