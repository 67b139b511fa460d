//! The text form of a module, both ways: `parse(&print(m)) == Ok(m)` for every module that [`check`](crate::check)
//! accepts, but for the schema's C types, which the text does not have. It is what `--emit ir` shows.
//!
//! ```text
//! max_map_keys 4096
//! missing_probes warn                                  or ignore; error is not written
//! max_loop_iterations 100                              0 is not written
//! map @bytes hist                                      a scalar map: name, what it holds
//! map @who[(u64, str16)] sum i64                       a keyed one: key type in brackets
//! map @x #3 plain str64                                #n: index of its eBPF map, where not 0
//! map @l lhist 0 100 10                                min, max, step
//! action printf "%d %s\n" (i64 at 8, str64 at 16)      also: print_value, print_map, print_map_key,
//!                                                      clear_map, zero_map, exit
//! event "shop" "sale" level 6 ("id" i4 hex slot 0, "name" text slot 1)   recorded with all fields; types: iN uN fN string text,
//!                                                      enum T ["A" 0 0, …], array N T, sequence T, struct ["x" 0 T, …]; `characters` as `hex`
//! site "uprobe:/lib/libc.so.6:malloc" "malloc"         names of attach cookie 0, 1, …
//!
//! fn "uprobe:libc:malloc" uprobe span 0 42 {           begin, end, interval NS, uprobe, uretprobe, session, usdt, filter
//!   site "/lib/libc.so.6" "malloc" 0                   binary, function, cookie[, `at` address][, `by_pattern`]; of usdt: binary, provider,
//!                                                      name, address, cookie[, `semaphore` address]
//! b0:
//!   v0: u64 = arg 0
//!   v1: u64 = int 100
//!   v2: u64 = ugt v0, v1
//!   branch v2, b1(v0), b2                              condition, if not 0, otherwise
//! b1(v3: u64):
//!   aggregate @bytes, v3
//!   jump b2
//! b2:
//!   return
//! }
//! ```
//!
//! A filter's block may end in `accept` too.
//!
//! Operations: `int N`, `reg N`, `slot N`, `read_int BYTES a`, `str "…"`, builtins by name, arithmetic and comparisons by name with two values,
//! `streq a, b`, `strne a, b` (and of either `first N`: N bytes), `read_str a`, `read_str a, limit`, `get @m[k]`, `has @m[k]`, `set @m[k], v`, `add_to @m[k], v`,
//! `set_session_cookie v`, `signal v`, `signal_thread v`, `delete @m[k]`, `aggregate @m[k], v`, `emit N(v, …)`, `record N(v, …)`, `call_program`, `may_loop`. `value v7: u64` gives a type to a value that nothing
//! defines. A `;` begins a comment. Line ends are spaces. Types: `i64 u64 strN probe func (T, …)`.
//!
//! Parsing checks the grammar and the bounds that keep memory small; what the text means is [`check`](crate::check)'s.

mod parse;
mod print;
mod scan;

pub use parse::{ParseError, parse};
pub use print::print;
