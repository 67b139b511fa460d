//! The argument text of a note, cut into one text for each argument.
//!
//! Blanks separate arguments. Compilers write none inside an operand, but hand-written notes may, after the comma of
//! `8(%rax, %rbx)`: inside parentheses a blank separates nothing.

use crate::limits::PROBE_ARGUMENTS_MAX;

/// At most `PROBE_ARGUMENTS_MAX`: there are no macros for more, and no words for them in a script.
pub(crate) fn arguments(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let mut is_blank = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ' ' && depth == 0
    };
    text.split(&mut is_blank).filter(|part| !part.is_empty()).take(PROBE_ARGUMENTS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(arguments(text), expected, "{text}");
    }

    #[test]
    fn blanks_outside_parentheses_separate() {
        check("", &[]);
        check("   ", &[]);
        check("8@%rax", &["8@%rax"]);
        check(" 8@%rax  -4@$7 ", &["8@%rax", "-4@$7"]);
        check("8@(%rax, %rbx, 8) 4@%eax", &["8@(%rax, %rbx, 8)", "4@%eax"]);
        check("8@(%rax 4@%eax", &["8@(%rax 4@%eax"]);
        check(") 4@%eax", &[")", "4@%eax"]);
    }

    #[test]
    fn no_more_than_a_macro_can_have() {
        assert_eq!(arguments(&"8@%rax ".repeat(40)).len(), PROBE_ARGUMENTS_MAX);
    }
}
