//! Functions that decide about an event: their words in the text form, and who may use them.

use weir_ir::{Op, Terminator, check, pass, text};

const FILTER: &str = "max_map_keys 4096

fn \"f\" filter span 0 1 {
b0:
  v0: u64 = slot 3
  branch v0, b1, b2
b1:
  jump b3
b2:
  return
b3:
  accept
}
";

#[test]
fn text_reads_back() {
    let module = text::parse(FILTER).unwrap();
    assert_eq!(check::check(&module), Ok(()));
    assert_eq!(text::print(&module), FILTER);
}

/// `a*`.
const MATCH: &str = "  v1: u64 = match v0, 4095, 0 1 1 2 \"CLASSES\" \"02000100\"\n  branch v1";

fn matching() -> String {
    let classes: String = (0..=255u8).map(|byte| if byte == b'a' { "01" } else { "00" }).collect();
    FILTER.replace("  branch v0", &MATCH.replace("CLASSES", &classes))
}

#[test]
fn an_automaton_reads_back_and_says_what_it_matches() {
    let module = text::parse(&matching()).unwrap();
    assert_eq!(check::check(&module), Ok(()));
    assert_eq!(text::print(&module), matching());
    let Op::Match { automaton, .. } = &module.functions[0].blocks[0].insts[1].op else {
        panic!("{module:?}")
    };
    assert!(automaton.matches(b"abc") && !automaton.matches(b"ba") && !automaton.matches(b""));
}

#[test]
fn an_automaton_that_is_not_whole_is_refused() {
    let refused = |from: &str, to: &str, want: &str| {
        let module = text::parse(&matching().replace(from, to)).unwrap();
        let faults = check::check(&module).unwrap_err();
        assert!(faults[0].contains(want), "{faults:?}");
    };
    refused("0 1 1 2", "3 1 1 2", "a state that it does not have");
    refused("0 1 1 2", "0 2 1 2", "not whole");
    refused("0 1 1 2", "0 1 1 1", "other classes");
    refused("02000100", "0200", "not whole");
    refused("02000100", "03000100", "a state that it does not have");
    refused("4095", "0", "a look at 0 bytes");
}

#[test]
fn passes_keep_the_decision() {
    let mut module = text::parse(FILTER).unwrap();
    pass::optimise(&mut module);
    assert_eq!(check::check(&module), Ok(()));
    let function = &module.functions[0];
    let ends: Vec<&Terminator> = function.blocks.iter().map(|block| &block.end).collect();
    let Terminator::Branch { then, otherwise, .. } = ends[0] else { panic!("{ends:?}") };
    assert_eq!(ends[then.0 as usize], &Terminator::Accept);
    assert_eq!(ends[otherwise.0 as usize], &Terminator::Return);
}

#[test]
fn only_filters_accept_and_read_slots() {
    let module = text::parse(&FILTER.replace("\"f\" filter", "\"f\" begin")).unwrap();
    let faults = check::check(&module).unwrap_err();
    assert_eq!(faults.iter().filter(|fault| fault.contains("only filters")).count(), 2, "{faults:?}");
    let module = text::parse(&FILTER.replace("slot 3", "slot 21")).unwrap();
    assert!(check::check(&module).unwrap_err()[0].contains("slot 21, but there are 21"));
}
