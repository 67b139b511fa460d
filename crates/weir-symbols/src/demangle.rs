//! C++ and Rust names as people write them: `_ZN3foo3barEi` is `foo::bar(int)`, `_RNvC1a1b` is `a::b`.
//!
//! In: a symbol of the Itanium C++ ABI, or of rustc's two (whose hashes are left out). Out: the name, or nothing where it is none, or where it would be longer than a
//! bound: a hostile symbol of some hundred bytes can stand for gigabytes.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

use crate::limits::DEMANGLED_BYTES_MAX;
use crate::pattern;

/// `None`: the symbol is shown as it is.
pub fn demangle(symbol: &str) -> Option<String> {
    demangled(symbol, &DemangleOptions::default())
}

/// How a symbol is named by what a person has written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Match {
    Wildcard,
    Exact,
}

/// Whether `wanted` names the symbol: as it is or demangled, then also without the type that a template returns, and without parameters; or, as
/// a wildcard, one of these.
pub(crate) fn names(wanted: &str, symbol: &str) -> Option<Match> {
    let is_wildcard = pattern::is_wildcard(wanted);
    let compare = |name: &str| match name == wanted {
        true => Some(Match::Exact),
        false => (is_wildcard && pattern::matches(wanted, name)).then_some(Match::Wildcard),
    };
    let options = DemangleOptions::default;
    let forms = [options(), options().no_return_type(), options().no_return_type().no_params()];
    // A part that the compiler has split off (`.cold`) shows that behind its parameters alone.
    let count = if symbol.starts_with("_Z") && symbol.contains('.') && !is_rust(symbol) { 2 } else { 3 };
    let demangled = forms[..count].iter().map_while(|form| demangled(symbol, form));
    compare(symbol).max(demangled.filter_map(|name| compare(&name)).max())
}

fn demangled(symbol: &str, options: &DemangleOptions) -> Option<String> {
    let mut name = Bounded(String::new());
    // In the older of rustc's schemes a symbol looks like one of C++ that ends in a hash.
    if is_rust(symbol)
        && let Ok(parsed) = rustc_demangle::try_demangle(symbol)
    {
        write!(name, "{parsed:#}").ok()?;
        return Some(name.0);
    }
    if !symbol.starts_with("_Z") {
        return None;
    }
    let parsed = BorrowedSymbol::new(symbol.as_bytes()).ok()?;
    parsed.structured_demangle(&mut name, options).ok()?;
    Some(name.0)
}

/// The crate takes more than Linux has: `RC4_init` of C for another system's prefix, and names of C++ that end in an `h`.
fn is_rust(symbol: &str) -> bool {
    const HASH_DIGITS: usize = 16;
    let has_hash = || {
        let (_, hash) = symbol.rsplit_once("17h").unwrap_or_default();
        let digits = hash.bytes().take(HASH_DIGITS).filter(u8::is_ascii_hexdigit).count();
        digits == HASH_DIGITS && hash.as_bytes().get(HASH_DIGITS) == Some(&b'E')
    };
    symbol.starts_with("_R") || symbol.starts_with("_ZN") && has_hash()
}

/// Refuses what would make it longer than the bound.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > DEMANGLED_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_with_and_without_parameters() {
        let check = |symbol: &str, wanted: &str, found| assert_eq!(names(wanted, symbol), found, "{wanted}");
        let (exact, wildcard) = (Some(Match::Exact), Some(Match::Wildcard));
        for wanted in ["_ZN2ns1fEi", "ns::f(int)", "ns::f"] {
            check("_ZN2ns1fEi", wanted, exact);
        }
        for wanted in ["ns::*", "ns::f(*", "*f", "_ZN2ns*"] {
            check("_ZN2ns1fEi", wanted, wildcard);
        }
        for wanted in ["ns::f(double)", "f", "ns", "ns::", "ns::f(", ""] {
            check("_ZN2ns1fEi", wanted, None);
        }
        check("_ZNK2ns1SIiE1gEi", "ns::S<int>::g(int) const", exact);
        // What a template returns is a part of its name.
        for wanted in ["int ns::t<int>(int)", "ns::t<int>(int)", "ns::t<int>"] {
            check("_ZN2ns1tIiEET_S1_", wanted, exact);
        }
        check("_ZN2nsixEi", "ns::operator[](int)", exact);
        check("_ZN2ns1fEPc", "ns::f(char*)", exact);
        // A part that the compiler has split off is no function of the name.
        check("_ZN2ns1fEi.cold", "ns::f", None);
        check("_ZN2ns1fEi.cold", "ns::f*", wildcard);
        check("main", "main", exact);
        check("main", "m?in", wildcard);
        check("_RNvC1a1b", "a::b", exact);
    }

    #[test]
    fn symbols_of_cpp_and_rust_become_names_and_others_stay() {
        let check =
            |symbol: &str, want: Option<&str>| assert_eq!(demangle(symbol).as_deref(), want, "{symbol}");
        check("_ZN3foo3barEi", Some("foo::bar(int)"));
        check(
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            Some("std::vector<int, std::allocator<int> >::push_back(int const&)"),
        );
        check("main", None);
        check("_RNvC1a1b", Some("a::b"));
        check("_RNvNtCs1234_7mycrate3foo3bar", Some("mycrate::foo::bar"));
        check("_RINvC1a1blE", Some("a::b::<i32>"));
        check("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", Some("core::fmt::Write::write_fmt"));
        check("_RNvC", None);
        check("RC4_init", None);
        check("_ZN4list4headE", Some("list::head"));
        check("_ZN12_GLOBAL__N_13fooE", Some("(anonymous namespace)::foo"));
        check("_Z", None);
        check("_ZN3foo", None);
    }

    #[test]
    fn a_symbol_that_stands_for_too_much_is_none() {
        // Each pair doubles: std::pair<T, T> of the one before, by substitution.
        let mut symbol = String::from("_Z1fSt4pairIiiE");
        let mut last = String::from("S0_");
        for _ in 0..200 {
            symbol.push_str(&format!("St4pairI{last}{last}E"));
            last = format!("S{}_", base36(symbol.matches("St4pair").count() as u32 - 1));
        }
        let began = testkit::cpu::used_by_this_thread();
        assert!(demangle(&symbol).is_none_or(|name| name.len() <= DEMANGLED_BYTES_MAX));
        assert!((testkit::cpu::used_by_this_thread() - began).as_secs() < 5);
        // The same by back references: a tuple of the tuple before, twice.
        let mut rust = String::from("_RINvC1a1bTll");
        for _ in 0..60 {
            rust = rust.replacen("_RINvC1a1b", "_RINvC1a1bT", 1) + "E" + "B7_";
        }
        assert!(demangle(&format!("{rust}EE")).is_none_or(|name| name.len() <= DEMANGLED_BYTES_MAX));
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert!(demangle(&deep).is_none_or(|name| name.len() <= DEMANGLED_BYTES_MAX));
    }

    fn base36(number: u32) -> String {
        let digit = |n: u32| char::from_digit(n, 36).map_or('0', |digit| digit.to_ascii_uppercase());
        if number < 36 {
            digit(number).to_string()
        } else {
            format!("{}{}", base36(number / 36), digit(number % 36))
        }
    }
}
