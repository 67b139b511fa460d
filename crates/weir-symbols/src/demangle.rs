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

/// A name or a wildcard, as a person writes it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    text: &'a str,
    is_wildcard: bool,
    /// They are in every symbol that has such a name: most symbols are told apart without being demangled.
    words: Vec<&'a str>,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(text: &'a str) -> Wanted<'a> {
        Wanted { text, is_wildcard: pattern::is_wildcard(text), words: words_of_symbols(text) }
    }

    /// Whether it names the symbol: as it is or demangled, then also without the type that a template returns, and without parameters; or, as
    /// a wildcard, one of these.
    pub(crate) fn names(&self, symbol: &str) -> Option<Match> {
        if !self.words.iter().all(|word| symbol.contains(word)) {
            return None;
        }
        let compare = |name: &str| match name == self.text {
            true => Some(Match::Exact),
            false => (self.is_wildcard && pattern::matches(self.text, name)).then_some(Match::Wildcard),
        };
        let options = DemangleOptions::default;
        let forms = [options(), options().no_return_type(), options().no_return_type().no_params()];
        // A part that the compiler has split off (`.cold`) shows that behind its parameters alone.
        let count = if symbol.starts_with("_Z") && symbol.contains('.') && !is_rust(symbol) { 2 } else { 3 };
        let mut found = compare(symbol);
        each_form(symbol, &forms[..count], |name| found = found.max(compare(name)));
        found
    }
}

/// Words that demanglers write and symbols do not have: names of types, operators and substitutions, and what is said of parts.
// One is written with an escape: what stands in files is searched for it.
const OF_DEMANGLERS: &str = "bool char const false true unsigned void wchar_t signed short int long __int128 float double _Float16 __float80 __float128 \
    decimal32 decimal64 decimal128 half bfloat16_t char8_t char16_t char32_t auto decltype nullptr_t restrict volatile noexcept throw transaction_safe \
    complex _Complex imaginary _Imaginary _Accum _BitInt _Fract _Sat __vector struct union enum class typename template \
    operator new delete sizeof alignof typeid co_await dynamic_cast static_cast const_cast reinterpret_cast global \
    std allocator basic_string string char_traits basic_istream basic_ostream basic_iostream istream ostream iostream \
    anonymous namespace lambda unnamed type parameter parm default arg argument pack expansion clone this block literal invocation abi offset \
    vtable vtt VTT for construction in typeinfo name non virtual thunk to covariant return override guard variable initialization reference temporary \
    TLS init wrapper function transaction hidden alias java Java resource aux base object complete deleting allocating unified constructors destructors keyed scope \
    str i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 impl dyn as mut \x75nsafe extern fn closure shim deref \
    invalid syntax recursion limit reached punycode";

/// A shorter one is not looked for: it says little.
const WORD_BYTES_MIN: usize = 3;

/// Runs of letters, digits and underscores outside of wildcards, each of which the symbol of any name that matches has, too.
fn words_of_symbols(pattern: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut rest, mut is_part) = (pattern, false);
    loop {
        let run = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        // Numbers are written otherwise there.
        let word = rest[..run].trim_start_matches(|c: char| c.is_ascii_digit());
        let next = rest[run..].chars().next();
        let is_wild = |c: Option<char>| matches!(c, Some('*' | '?' | '[' | ']'));
        // Beside a wildcard it is a part of a word.
        let is_own = match is_part || is_wild(next) || word.len() < run {
            true => OF_DEMANGLERS.contains(word),
            false => OF_DEMANGLERS.split(' ').any(|own| own == word),
        };
        if word.len() >= WORD_BYTES_MIN && !is_own {
            words.push(word);
        }
        is_part = is_wild(next);
        let mut behind = rest[run..].chars();
        match behind.next() {
            None => return words,
            // One of a set: whatever is in it. A `]` that stands first is in it.
            Some('[') => {
                let body = behind.as_str();
                let first = body.trim_start_matches(['!', '^']).chars().next().map_or(0, char::len_utf8);
                let from = body.len() - body.trim_start_matches(['!', '^']).len() + first;
                rest = body[from..].find(']').map_or("", |end| &body[from + end..]);
            }
            Some(_) => rest = behind.as_str(),
        }
    }
}

fn demangled(symbol: &str, options: &DemangleOptions) -> Option<String> {
    let mut found = None;
    each_form(symbol, std::slice::from_ref(options), |name| found = Some(name.to_owned()));
    found
}

/// The symbol is read once; nothing behind a form in which it would be too long.
fn each_form(symbol: &str, forms: &[DemangleOptions], mut each: impl FnMut(&str)) {
    // In the older of rustc's schemes a symbol looks like one of C++ that ends in a hash.
    if is_rust(symbol)
        && let Ok(parsed) = rustc_demangle::try_demangle(symbol)
    {
        let mut name = Bounded(String::new());
        if write!(name, "{parsed:#}").is_ok() {
            each(&name.0);
        }
        return;
    }
    if !symbol.starts_with("_Z") {
        return;
    }
    let Ok(parsed) = BorrowedSymbol::new(symbol.as_bytes()) else { return };
    for form in forms {
        let mut name = Bounded(String::new());
        if parsed.structured_demangle(&mut name, form).is_err() {
            return;
        }
        each(&name.0);
    }
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
        let check = |symbol: &str, wanted: &str, found| {
            assert_eq!(Wanted::new(wanted).names(symbol), found, "{wanted}");
        };
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
    fn words_of_patterns_are_those_that_symbols_have() {
        let check = |pattern: &str, words: &[&str]| assert_eq!(words_of_symbols(pattern), words, "{pattern}");
        check("shop::Cart<int>::add(int)", &["shop", "Cart", "add"]);
        check("*shop*::c?rt", &["shop"]);
        check("shop::[abc]dd[]x]end[open", &["shop", "end"]);
        check("std::vector<unsigned long>::*", &["vector"]);
        check("f<123abc>", &["abc"]);
        check("(anonymous namespace)::*onymou*", &[]);
        check("[", &[]);
        check("[!", &[]);
    }

    /// No name is lost by what is looked for in symbols first.
    #[test]
    fn symbols_of_libraries_have_the_words_of_their_names() {
        let own = std::env::current_exe().unwrap();
        let library = std::path::Path::new("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
        let (mut seen, mut missing) = (0, std::collections::BTreeSet::new());
        for path in [&own, library].into_iter().filter(|path| path.exists()) {
            let binary = crate::Binary::open(path).unwrap();
            let step = binary.functions().len() / 4000 + 1;
            for symbol in binary.functions().iter().step_by(step).flat_map(|function| function.names()) {
                let options = DemangleOptions::default;
                let forms = [options(), options().no_return_type(), options().no_return_type().no_params()];
                each_form(symbol, &forms, |name| {
                    seen += 1;
                    // Brackets would be sets.
                    for word in words_of_symbols(&name.replace(['[', ']'], " ")) {
                        if !symbol.contains(word) {
                            missing.insert(format!("{word} of {name} is not in {symbol}"));
                        }
                    }
                });
            }
        }
        assert!(seen > 3000, "{seen}");
        assert!(missing.is_empty(), "{missing:?}");
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
