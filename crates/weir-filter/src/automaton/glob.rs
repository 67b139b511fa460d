//! Strings with stars. `a*b*c` is: begins with a; then, anywhere, b; ends with c, all apart.
//!
//! The first b is as good as any, so that one state says how far the pieces are found: which is looked for, and how many of its bytes
//! are the last of the text so far (Knuth, Morris and Pratt). There are as many states as the pattern has bytes, and two.

use weir_ir::Automaton;

use crate::ast::Pattern;

/// In which no text matches any more.
const FAILED: usize = 0;

/// The texts that a pattern stands for.
pub(crate) fn glob(pattern: &Pattern) -> Automaton {
    let pieces: Vec<&[u8]> = pattern.pieces.iter().map(String::as_bytes).collect();
    let (classes, class_count) = classes(&pieces);
    let class = |byte: u8| usize::from(classes[usize::from(byte)]);
    let mut table = vec![(vec![FAILED; class_count], false)];
    // SANITY: a pattern has at least one piece.
    let (first, others) = pieces.split_first().expect("a piece");
    for byte in *first {
        let mut row = vec![FAILED; class_count];
        row[class(*byte)] = table.len() + 1;
        table.push((row, false));
    }
    let Some((last, middle)) = others.split_last() else {
        table.push((vec![FAILED; class_count], true));
        return Automaton::of(classes, &table, 1);
    };
    for piece in middle {
        search(piece, &class, class_count, &mut table);
    }
    let restart = search(last, &class, class_count, &mut table);
    // At the end of the last piece: the text matches if it ends here; if it goes on, the piece is looked for further on.
    table.push((restart.unwrap_or_else(|| vec![table.len(); class_count]), true));
    Automaton::of(classes, &table, 1)
}

/// Adds the states in which a piece is looked for; the state behind them has found it. Gives where that one goes if it looks for
/// the piece again; none of an empty piece.
fn search(
    piece: &[u8],
    class: &impl Fn(u8) -> usize,
    class_count: usize,
    table: &mut Vec<(Vec<usize>, bool)>,
) -> Option<Vec<usize>> {
    let base = table.len();
    // Where the piece without its first byte would be: what else the last bytes may begin.
    let mut shadow = base;
    for (found, byte) in piece.iter().enumerate() {
        let mut row = if found == 0 { vec![base; class_count] } else { table[shadow].0.clone() };
        if found > 0 {
            shadow = row[class(*byte)];
        }
        row[class(*byte)] = base + found + 1;
        table.push((row, false));
    }
    (!piece.is_empty()).then(|| table[shadow].0.clone())
}

/// Of each byte that is in a piece its own class, from 1 on; all others are 0. And how many there are.
fn classes(pieces: &[&[u8]]) -> ([u8; 256], usize) {
    let mut classes = [0; 256];
    let mut count = 1;
    // A string has no NUL, so that at most 255 bytes have a class.
    for byte in pieces.iter().flat_map(|piece| piece.iter()) {
        let class = &mut classes[usize::from(*byte)];
        if *class == 0 {
            *class = count as u8;
            count += 1;
        }
    }
    (classes, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern { pieces: text.split('*').map(str::to_owned).collect() }
    }

    #[track_caller]
    fn check(text: &str, yes: &[&str], no: &[&str]) {
        let automaton = glob(&pattern(text));
        for (texts, expected) in [(yes, true), (no, false)] {
            texts
                .iter()
                .for_each(|have| assert_eq!(automaton.matches(have.as_bytes()), expected, "{text} {have}"));
        }
    }

    #[test]
    fn stars_stand_for_any_rest_and_pieces_for_themselves() {
        check("abc", &["abc"], &["", "ab", "abcd", "xabc"]);
        check("", &[""], &["a"]);
        check("*", &["", "a"], &[]);
        check("a*", &["a", "ab"], &["", "ba"]);
        check("*a", &["a", "ba", "aa"], &["", "ab"]);
        check("a*b", &["ab", "axb", "abb", "abab"], &["a", "b", "aba"]);
        check("*ab*", &["ab", "aab", "xaabx"], &["", "a", "ba"]);
        check("a*a", &["aa", "aba"], &["a", "ab"]);
    }

    #[test]
    fn a_piece_that_overlaps_itself_is_found() {
        check("*aab*", &["aaab", "aaaab"], &["aaa", "abab"]);
        check("*abab*ab", &["ababab", "abababab", "xababxab"], &["abab", "ababa"]);
        check("*abac", &["abac", "ababac", "abacabac"], &["abaca"]);
        check("*a*b*c*", &["abc", "xaybzc", "aabbcc"], &["acb", "ab", "cba"]);
    }

    #[test]
    fn states_are_as_many_as_bytes_and_two_more() {
        let automaton = glob(&pattern(&format!("*{}b*{}b", "a".repeat(500), "a".repeat(500))));
        assert!(automaton.live <= 1004, "{}", automaton.live);
    }
}
