//! Pieces and gaps → lines of at most so many columns, where there is a place to wrap them.

use crate::formatter::piece::{Kind, Piece};
use crate::formatter::spacing::{CONTINUATION, Gap, INDENT};

/// Columns of a line.
const COLUMNS_MAX: usize = 100;
/// Columns that a line has behind what indents it, however deep its block is.
const COLUMNS_MIN: usize = 40;
/// More than there are brackets around anything: where a line ends only if it can end nowhere else.
const LAST_RANK: usize = 1 << 20;

/// The text of all pieces.
pub(super) fn lines(pieces: &[Piece<'_>], gaps: &[Gap]) -> String {
    let mut out = String::new();
    let mut start = 0;
    // C text that begins with `#!` is not to become the script's first line, which would mean something else.
    if pieces.first().is_some_and(|piece| piece.kind == Kind::C && piece.text.starts_with("#!")) {
        out.push('\n');
    }
    while start < pieces.len() {
        let is_new = |gap: &Gap| matches!(gap, Gap::Line { .. });
        let end = gaps[start + 1..].iter().position(is_new).map_or(pieces.len(), |length| start + 1 + length);
        let indent = match gaps[start] {
            Gap::Line { indent, is_apart } => {
                if is_apart && !out.is_empty() {
                    out.push('\n');
                }
                indent
            }
            _ => 0,
        };
        Line { pieces: &pieces[start..end], gaps: &gaps[start..end], indent }.write(&mut out);
        out.push('\n');
        start = end;
    }
    out
}

/// What stands on one line, unless it is too long.
struct Line<'a> {
    pieces: &'a [Piece<'a>],
    gaps: &'a [Gap],
    indent: usize,
}

impl Line<'_> {
    fn write(&self, out: &mut String) {
        let ends = self.ends();
        let places = self.places();
        // Comments behind the code may be as long as they are.
        let code = self.pieces.iter().rposition(|piece| !piece.is_comment()).map_or(0, |last| last + 1);
        let mut places = places.as_slice();
        let (mut start, mut indent) = (0, self.indent);
        loop {
            let columns_max = COLUMNS_MAX.max(indent + COLUMNS_MIN);
            let width = |end: usize| {
                indent + ends[end] - ends[start] - usize::from(start > 0 && self.gaps[start] == Gap::Blank)
            };
            let fitting = places.iter().take_while(|place| width(place.0) <= columns_max).count();
            let is_short = width(code) <= columns_max;
            // The last of those that fit and have the lowest rank; or the first, where none fits.
            let best =
                places[..fitting].iter().enumerate().min_by_key(|(index, place)| (place.1, fitting - index));
            let chosen = best.map_or(0, |(index, _)| index);
            let Some(place) = places.get(chosen).filter(|_| !is_short) else {
                self.write_part(start, self.pieces.len(), indent, out);
                return;
            };
            self.write_part(start, place.0, indent, out);
            out.push('\n');
            places = &places[chosen + 1..];
            (start, indent) = (place.0, self.pieces[0].depth * INDENT + CONTINUATION);
        }
    }

    /// The columns from the line's first piece to the end of each, and 0 before: the end of piece `i` is at `i + 1`.
    fn ends(&self) -> Vec<usize> {
        let mut ends = vec![0];
        let mut column = 0;
        for (index, (piece, gap)) in self.pieces.iter().zip(self.gaps).enumerate() {
            column += usize::from(index > 0 && *gap == Gap::Blank) + piece.text.chars().count();
            ends.push(column);
        }
        ends
    }

    /// The pieces that may begin a line, each with its rank: where a lower one fits, no other is taken.
    fn places(&self) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        // Of each open bracket: it is a map's, or an array's.
        let mut open = Vec::new();
        for (index, pair) in self.pieces.windows(2).enumerate() {
            let (before, next) = (&pair[0], &pair[1]);
            match &*before.text {
                "(" | "[" if before.kind == Kind::Punct => open.push(before.is("[")),
                ")" | "]" if before.kind == Kind::Punct => {
                    open.pop();
                }
                _ => {}
            }
            let is_blank = self.gaps[index + 1] == Gap::Blank;
            let is_in_key = open.last() == Some(&true);
            let rank = match before.kind {
                // Beside a comment the source's ends of lines count.
                _ if before.is_comment() || next.is_comment() || matches!(next.kind, Kind::Open(_)) => {
                    continue;
                }
                Kind::Punct if before.is(",") => 2 * open.len() + usize::from(is_in_key),
                Kind::Binary if matches!(&*before.text, "&&" | "||") => 2 * open.len(),
                Kind::Binary => 2 * open.len() + 1,
                // `=`, `?` and the like: after the commas of a call behind them.
                Kind::Punct if is_blank && !before.is(")") && !before.is("]") => 2 * open.len() + 3,
                _ if is_blank || before.is("(") || before.is("[") || next.is("->") || next.is(".") => {
                    LAST_RANK + open.len()
                }
                _ => continue,
            };
            places.push((index + 1, rank));
        }
        places
    }

    fn write_part(&self, start: usize, end: usize, indent: usize, out: &mut String) {
        for index in start..end {
            let piece = &self.pieces[index];
            match self.gaps[index] {
                _ if index == start && piece.kind != Kind::C => out.extend(std::iter::repeat_n(' ', indent)),
                Gap::Blank if index > start => out.push(' '),
                _ => {}
            }
            match stars(piece).filter(|_| index == 0) {
                Some(lines) => {
                    for (number, line) in lines.into_iter().enumerate() {
                        if number > 0 {
                            out.push('\n');
                            out.extend(std::iter::repeat_n(' ', indent + 1));
                        }
                        out.push_str(line);
                    }
                }
                None => out.push_str(&piece.text),
            }
        }
    }
}

/// The lines of a comment whose lines all begin with `*`, which are indented anew.
fn stars<'a>(piece: &'a Piece<'_>) -> Option<Vec<&'a str>> {
    let lines: Vec<&str> = piece.text.lines().map(str::trim).collect();
    let has_stars = lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with('*'));
    (piece.kind == Kind::BlockComment && has_stars).then_some(lines)
}
