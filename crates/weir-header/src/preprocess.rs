//! Directives and macros: text → tokens without either.
//!
//! Conditions, `#define` (with parameters, `#` and `##`), `#include` through the [`World`], `#pragma pack` and `once`. What GCC for
//! Linux predefines is predefined, and `BPFTRACE_HAVE_BTF`. [`Preprocessor::next`] gives tokens as they are asked for.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use weir_ir::World;
use weir_source::{Diagnostic, Span};

use crate::condition::{Int, Names, evaluate, evaluate_directive};
use crate::fault;
use crate::limits;
use crate::token::{Lexer, Token, TokenKind, unquoted};

/// A macro that stands for one value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Constant {
    Number(i128),
    Text(String),
}

struct Macro {
    /// None: it takes no brackets.
    params: Option<Vec<Rc<str>>>,
    /// The last parameter takes all that is left.
    is_variadic: bool,
    body: Vec<Token>,
    /// Every compiler has it: scripts do not mean it.
    is_predefined: bool,
}

struct File {
    lexer: Lexer,
    /// None: the script.
    name: Option<Rc<str>>,
    /// Conditions that were open when it began.
    conditions: usize,
}

/// An `#if` that is open.
struct Condition {
    /// What stands here is read.
    is_active: bool,
    /// One of its branches was read.
    was_active: bool,
    span: Span,
}

pub(super) struct Preprocessor<'a> {
    world: &'a dyn World,
    files: Vec<File>,
    macros: HashMap<Rc<str>, Macro>,
    conditions: Vec<Condition>,
    /// Expanded already.
    ready: VecDeque<Token>,
    /// Taken from the text too early.
    ahead: Option<Token>,
    /// Files that are read once.
    once: HashSet<Rc<str>>,
    /// `#pragma pack`, innermost last; 0: as usual.
    packs: Vec<u32>,
    /// Tokens that may still come.
    left: u32,
    includes: u32,
    pub(super) diagnostics: Vec<Diagnostic>,
}

const PREDEFINED: &str = "
#define __LP64__ 1\n#define _LP64 1
#define __linux__ 1\n#define __linux 1\n#define __gnu_linux__ 1\n#define __unix__ 1\n#define __unix 1\n#define __ELF__ 1
#define __GNUC__ 12\n#define __GNUC_MINOR__ 2\n#define __STDC__ 1\n#define __STDC_VERSION__ 201710L\n#define __STDC_HOSTED__ 1
#define __CHAR_BIT__ 8\n#define __SIZEOF_SHORT__ 2\n#define __SIZEOF_INT__ 4\n#define __SIZEOF_LONG__ 8\n#define __SIZEOF_LONG_LONG__ 8
#define __SIZEOF_POINTER__ 8\n#define __SIZEOF_SIZE_T__ 8\n#define __SIZEOF_WCHAR_T__ 4\n#define __INT_MAX__ 2147483647
#define __LONG_MAX__ 9223372036854775807L\n#define __ORDER_LITTLE_ENDIAN__ 1234\n#define __ORDER_BIG_ENDIAN__ 4321\n#define __ORDER_PDP_ENDIAN__ 3412
#define __BYTE_ORDER__ 1234\n#define __SIZE_TYPE__ unsigned long\n#define __PTRDIFF_TYPE__ long\n#define __WCHAR_TYPE__ int\n#define __WINT_TYPE__ unsigned int
#define __INT8_TYPE__ signed char\n#define __INT16_TYPE__ short\n#define __INT32_TYPE__ int\n#define __INT64_TYPE__ long\n#define __INTPTR_TYPE__ long
#define __UINT8_TYPE__ unsigned char\n#define __UINT16_TYPE__ unsigned short\n#define __UINT32_TYPE__ unsigned int\n#define __UINT64_TYPE__ unsigned long
#define __UINTPTR_TYPE__ unsigned long\n#define __INTMAX_TYPE__ long\n#define __UINTMAX_TYPE__ unsigned long\n#define BPFTRACE_HAVE_BTF 1
";

/// Headers that come with compilers, not with a system: what of them declares types.
const OWN_HEADERS: [(&str, &str); 4] = [
    (
        "stddef.h",
        "typedef unsigned long size_t; typedef long ptrdiff_t; typedef int wchar_t;\ntypedef struct { long long a; long double b; } max_align_t;\n#define NULL 0\n",
    ),
    ("stdbool.h", "#define bool _Bool\n#define true 1\n#define false 0\n"),
    ("stdarg.h", "typedef __builtin_va_list __gnuc_va_list, va_list;\n"),
    ("float.h", "\n"),
];

/// What `#include_next <limits.h>` of glibc's own finds.
const LIMITS: &str = "
#define CHAR_BIT 8\n#define SCHAR_MIN (-128)\n#define SCHAR_MAX 127\n#define UCHAR_MAX 255\n#define CHAR_MIN (-128)\n#define CHAR_MAX 127
#define SHRT_MIN (-32768)\n#define SHRT_MAX 32767\n#define USHRT_MAX 65535\n#define INT_MIN (-2147483647 - 1)\n#define INT_MAX 2147483647
#define UINT_MAX 4294967295U\n#define LONG_MAX 9223372036854775807L\n#define LONG_MIN (-LONG_MAX - 1L)\n#define ULONG_MAX 18446744073709551615UL
#define LLONG_MAX LONG_MAX\n#define LLONG_MIN LONG_MIN\n#define ULLONG_MAX ULONG_MAX
";

impl<'a> Preprocessor<'a> {
    pub(super) fn new(text: &str, headers: &[String], world: &'a dyn World) -> Preprocessor<'a> {
        let mut this = Preprocessor {
            world,
            files: Vec::new(),
            macros: HashMap::new(),
            conditions: Vec::new(),
            ready: VecDeque::new(),
            ahead: None,
            once: HashSet::new(),
            packs: vec![0],
            left: limits::C_TOKENS_MAX,
            includes: 0,
            diagnostics: Vec::new(),
        };
        for text in [PREDEFINED, weir_ir::isa::native::C_MACROS] {
            this.open(text, Some("<predefined>".into()), Some(Span::default()));
            while this.next().is_some() {}
        }
        this.macros.values_mut().for_each(|known| known.is_predefined = true);
        this.open(text, None, None);
        this.open(weir_ir::isa::native::C_DECLARATIONS, Some("<predefined>".into()), Some(Span::default()));
        // What is opened last is read first.
        for name in headers.iter().rev() {
            this.open_header(name, false, None, Span::default(), 0);
        }
        this
    }

    fn open(&mut self, text: &str, name: Option<Rc<str>>, outside: Option<Span>) {
        let conditions = self.conditions.len();
        let header = name.clone().zip(outside);
        self.files.push(File { lexer: Lexer::new(text, header), name, conditions });
    }

    /// The next token after macros; none at the end of all.
    pub(super) fn next(&mut self) -> Option<Token> {
        loop {
            if let Some(token) = self.ready.pop_front() {
                return Some(token);
            }
            let token = self.raw()?;
            let Some(known) = self.expandable(&token, &[]) else { return Some(token) };
            let mut tokens = vec![token];
            if known.params.is_some() && !self.arguments_ahead(&mut tokens) {
                return tokens.pop();
            }
            let expanded = self.expand(tokens, &mut Vec::new());
            self.ready.extend(expanded);
        }
    }

    /// As messages name the place of what comes next, if it is in a header.
    pub(super) fn header(&self) -> Option<Rc<str>> {
        self.files.last().and_then(|file| file.name.clone())
    }

    /// What `#pragma pack` says; 0: nothing.
    pub(super) fn pack(&self) -> u32 {
        self.packs.last().copied().unwrap_or(0)
    }

    /// The macros that scripts may mean, by name, each with what it stands for, or its text.
    pub(super) fn constants(&mut self, names: &mut dyn Names) -> Vec<(String, Result<Constant, String>)> {
        let object_like =
            |known: &&Macro| known.params.is_none() && !known.is_predefined && !known.body.is_empty();
        let list: Vec<(Rc<str>, Vec<Token>)> = self
            .macros
            .iter()
            .filter(|(_, known)| object_like(known))
            .map(|(name, known)| (name.clone(), known.body.clone()))
            .collect();
        let mut found = Vec::new();
        for (name, body) in list {
            self.left = limits::C_MACRO_TOKENS_MAX;
            let tokens = self.expand(body.clone(), &mut vec![name.clone()]);
            // What is longer is no constant.
            let tokens = if self.left == 0 { Vec::new() } else { tokens };
            let is_text = !tokens.is_empty() && tokens.iter().all(|token| token.kind == TokenKind::Text);
            let value = match is_text {
                true => {
                    let bytes = tokens.iter().flat_map(|token| unquoted(&token.text)).collect();
                    String::from_utf8(bytes).ok().map(Constant::Text)
                }
                false => evaluate(&tokens, names).map(Constant::Number),
            };
            if value.is_none() {
                names.learn_type(&name, &tokens);
            }
            let text = || body.iter().map(|token| &*token.text).collect::<Vec<_>>().join(" ");
            found.push((name.to_string(), value.ok_or_else(text)));
        }
        found
    }

    pub(super) fn fault(&mut self, span: Span, line: u32, message: &str, hint: &str) {
        let at = self.header().map(|name| format!("{name}:{line}"));
        if self.diagnostics.len() < limits::DIAGNOSTICS_GATHERED_MAX {
            self.diagnostics.push(fault(span, at.as_deref(), message, hint));
        }
    }

    /// The next token of the text that is read, before macros.
    fn raw(&mut self) -> Option<Token> {
        if let Some(token) = self.ahead.take() {
            return Some(token);
        }
        loop {
            let Some(token) = self.files.last_mut()?.lexer.next() else {
                self.close();
                if self.files.is_empty() {
                    return None;
                }
                continue;
            };
            if self.left == 0 {
                let message = format!("the C text has more than {} tokens", limits::C_TOKENS_MAX);
                self.fault(token.span, token.line, &message, "include fewer headers");
                self.files.clear();
                self.conditions.clear();
                return None;
            }
            self.left -= 1;
            if token.begins_line && token.is("#") {
                self.directive(&token);
            } else if self.is_active() {
                return Some(token);
            }
        }
    }

    /// The file has ended.
    fn close(&mut self) {
        let Some(file) = self.files.last() else { return };
        let open: Vec<Span> = self.conditions[file.conditions..].iter().map(|open| open.span).collect();
        for span in open.into_iter().take(1) {
            self.fault(span, 0, "`#if` without `#endif`", "close it with `#endif`");
        }
        if let Some(file) = self.files.pop() {
            self.conditions.truncate(file.conditions);
        }
    }

    fn is_active(&self) -> bool {
        self.conditions.iter().all(|condition| condition.is_active)
    }

    // Directives.

    fn directive(&mut self, hash: &Token) {
        let Some(file) = self.files.last_mut() else { return };
        if file.lexer.is_at_line_end() {
            return;
        }
        let Some(word) = file.lexer.next() else { return };
        let text = file.lexer.rest_of_line().trim().to_string();
        let mut line = Vec::new();
        while !file.lexer.is_at_line_end() {
            line.extend(file.lexer.next());
        }
        self.left = self.left.saturating_sub(line.len() as u32);
        let span = hash.span.to(line.last().unwrap_or(&word).span);
        let (is_active, number) = (self.is_active(), word.line);
        match &*word.text {
            "if" | "ifdef" | "ifndef" => {
                let holds = is_active && self.condition(&word.text, &line, span, number);
                let condition = Condition { is_active: holds, was_active: holds, span };
                if self.conditions.len() < limits::C_NESTING_MAX as usize {
                    self.conditions.push(condition);
                } else {
                    self.fault(span, number, "too many `#if` within each other", "close them");
                    self.files.clear();
                    self.conditions.clear();
                }
            }
            "elif" | "else" | "endif" => self.branch(&word.text, &line, span, number),
            _ if !is_active => {}
            "define" => self.define(line, span, number),
            "undef" => {
                line.first().map(|name| self.macros.remove(&name.text));
            }
            "include" => self.include(&text, line, span, number),
            "include_next" if text == "<limits.h>" => self.open(LIMITS, Some("limits.h".into()), Some(span)),
            "include_next" => {
                self.fault(span, number, "`#include_next` is not read", "it is for compilers' own headers")
            }
            "pragma" => self.pragma(&line),
            "error" => self.fault(span, number, &format!("#error {text}"), "the header says so"),
            "warning" | "line" | "ident" => {}
            other => {
                let message = format!("unknown directive `#{}`", other.escape_debug());
                self.fault(
                    span,
                    number,
                    &message,
                    "known are include, define, undef, if, ifdef, ifndef, elif, else, endif and pragma",
                );
            }
        }
    }

    fn branch(&mut self, word: &str, line: &[Token], span: Span, number: u32) {
        let opened_here = self.files.last().map_or(0, |file| file.conditions);
        if self.conditions.len() <= opened_here {
            self.fault(span, number, &format!("`#{word}` without `#if`"), "open it with `#if`");
            return;
        }
        if word == "endif" {
            self.conditions.pop();
            return;
        }
        let outer = self.conditions[..self.conditions.len() - 1].iter().all(|condition| condition.is_active);
        let may = outer && self.conditions.last().is_some_and(|condition| !condition.was_active);
        let holds = may && (word == "else" || self.condition("if", line, span, number));
        if let Some(condition) = self.conditions.last_mut() {
            condition.is_active = holds;
            condition.was_active |= holds;
        }
    }

    fn condition(&mut self, word: &str, line: &[Token], span: Span, number: u32) -> bool {
        if word != "if" {
            let Some(name) = line.first().filter(|name| name.is_ident()) else {
                self.fault(span, number, &format!("`#{word}` takes the name of a macro"), "name one");
                return false;
            };
            return self.macros.contains_key(&name.text) == (word == "ifdef");
        }
        let tokens = self.without_defined(line);
        let tokens = self.expand(tokens, &mut Vec::new());
        match evaluate_directive(&tokens, &mut Zeros) {
            Some(holds) => holds,
            None => {
                self.fault(
                    span,
                    number,
                    "the condition is no integer constant expression",
                    "such as `#if defined(X) && X > 1`",
                );
                false
            }
        }
    }

    /// The line with a number for each `defined(X)` and `__has_…(…)`.
    fn without_defined(&mut self, line: &[Token]) -> Vec<Token> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < line.len() {
            let token = &line[at];
            at += 1;
            if !token.is("defined") && !token.text.starts_with("__has_") {
                out.push(token.clone());
                continue;
            }
            let is_bracketed = line.get(at).is_some_and(|next| next.is("("));
            let name = line.get(at + usize::from(is_bracketed));
            let is_there =
                token.is("defined") && name.is_some_and(|name| self.macros.contains_key(&name.text));
            at += 1;
            if is_bracketed {
                while line.get(at).is_some_and(|token| !token.is(")")) {
                    at += 1;
                }
                at += 1;
            }
            let text = if is_there { "1" } else { "0" };
            out.push(Token { kind: TokenKind::Number, text: text.into(), ..token.clone() });
        }
        out
    }

    fn define(&mut self, mut line: Vec<Token>, span: Span, number: u32) {
        let Some(name) = line.first().filter(|name| name.is_ident()).map(|name| name.text.clone()) else {
            self.fault(span, number, "`#define` takes a name", "such as `#define PORT 80`");
            return;
        };
        let mut body = line.split_off(1);
        let (mut params, mut is_variadic) = (None, false);
        if body.first().is_some_and(|first| first.is("(") && !first.is_apart) {
            let Some(close) = body.iter().position(|token| token.is(")")) else {
                self.fault(span, number, "the parameters of the macro are not closed", "add `)`");
                return;
            };
            let after = body.split_off(close + 1);
            let mut names = Vec::new();
            for token in &body[1..close] {
                match &*token.text {
                    "," => {}
                    "..." => {
                        is_variadic = true;
                        names.push("__VA_ARGS__".into());
                    }
                    _ => names.push(token.text.clone()),
                }
            }
            (params, body) = (Some(names), after);
        }
        self.macros.insert(name, Macro { params, is_variadic, body, is_predefined: false });
    }

    fn include(&mut self, text: &str, line: Vec<Token>, span: Span, number: u32) {
        let mut text = text.to_string();
        if !text.starts_with(['<', '"']) {
            text = self.expand(line, &mut Vec::new()).iter().map(|token| &*token.text).collect();
        }
        let (close, is_system) = if text.starts_with('<') { ('>', true) } else { ('"', false) };
        let name = text.get(1..).and_then(|rest| rest.split_once(close)).map(|(name, _)| name.to_string());
        let Some(name) = name.filter(|name| text.starts_with(['<', '"']) && !name.is_empty()) else {
            self.fault(
                span,
                number,
                "`#include` takes a file",
                "`#include <linux/socket.h>` or `#include \"own.h\"`",
            );
            return;
        };
        let from = self.header();
        self.open_header(&name, is_system, from.as_deref(), span, number);
    }

    fn open_header(&mut self, name: &str, is_system: bool, from: Option<&str>, span: Span, number: u32) {
        self.includes += 1;
        if self.files.len() >= limits::C_INCLUDE_DEPTH_MAX || self.includes > limits::C_INCLUDES_MAX {
            self.fault(
                span,
                number,
                &format!("too many files are included, at `{name}`"),
                "a header may include itself",
            );
            return;
        }
        if let Some((_, own)) = OWN_HEADERS.iter().find(|(own, _)| *own == name) {
            self.open(own, Some(name.into()), Some(span));
            return;
        }
        match self.world.header(name, is_system, from) {
            Ok((path, _)) if self.once.contains(path.as_str()) => {}
            Ok((path, text)) => self.open(&text, Some(path.into()), Some(span)),
            Err(error) => {
                let hint = error.hint.unwrap_or_else(|| "name its folder with `-I`".to_string());
                self.fault(span, number, &error.message, &hint);
            }
        }
    }

    fn pragma(&mut self, line: &[Token]) {
        let words: Vec<&str> = line.iter().map(|token| &*token.text).collect();
        let top = self.pack();
        match words.as_slice() {
            ["once", ..] => {
                let name = self.header();
                self.once.extend(name);
            }
            ["pack", "(", "push", rest @ ..] if self.packs.len() < 64 => {
                let bytes = rest.iter().find_map(|word| word.parse().ok());
                self.packs.push(bytes.unwrap_or(top));
            }
            ["pack", "(", "pop", ..] if self.packs.len() > 1 => _ = self.packs.pop(),
            ["pack", "(", rest @ ..] => {
                if let Some(last) = self.packs.last_mut() {
                    *last = rest.first().and_then(|word| word.parse().ok()).unwrap_or(0);
                }
            }
            _ => {}
        }
    }

    // Macros.

    fn expandable(&self, token: &Token, active: &[Rc<str>]) -> Option<&Macro> {
        let is_open = token.is_ident() && !token.is_final && active.len() < limits::C_NESTING_MAX as usize;
        self.macros.get(&token.text).filter(|_| is_open && !active.contains(&token.text))
    }

    /// Takes the arguments of a macro from the text, if there are any; else nothing.
    fn arguments_ahead(&mut self, tokens: &mut Vec<Token>) -> bool {
        let Some(open) = self.raw() else { return false };
        if !open.is("(") {
            self.ahead = Some(open);
            return false;
        }
        tokens.push(open);
        let mut depth = 1u32;
        while depth > 0 {
            let Some(token) = self.raw() else { break };
            depth = token.brackets(depth);
            tokens.push(token);
        }
        true
    }

    /// The tokens with all macros replaced. `active`: what is being replaced, which stays as it is.
    fn expand(&mut self, tokens: Vec<Token>, active: &mut Vec<Rc<str>>) -> Vec<Token> {
        let mut out = Vec::new();
        let mut at = 0;
        while at < tokens.len() && self.left > 0 {
            let token = &tokens[at];
            at += 1;
            self.left -= 1;
            let Some(known) = self.expandable(token, active) else {
                let is_final = token.is_final || active.contains(&token.text);
                out.push(Token { is_final, ..token.clone() });
                continue;
            };
            let body = match &known.params {
                None => known.body.clone(),
                Some(params) => {
                    let (params, is_variadic) = (params.clone(), known.is_variadic);
                    let body = known.body.clone();
                    let Some((arguments, after)) = arguments(&tokens, at, params.len(), is_variadic) else {
                        out.push(token.clone());
                        continue;
                    };
                    at = after;
                    self.substitute(&body, &params, &arguments, active)
                }
            };
            // What comes out of a macro stands where its name stood.
            let here =
                |of: Token| Token { span: token.span, file: token.file.clone(), line: token.line, ..of };
            let body = pasted(body).into_iter().map(here).collect();
            active.push(token.text.clone());
            out.extend(self.expand(body, active));
            active.pop();
        }
        out
    }

    /// A macro's body with its arguments: replaced themselves, but beside `#` and `##`.
    fn substitute(
        &mut self,
        body: &[Token],
        params: &[Rc<str>],
        arguments: &[Vec<Token>],
        active: &mut Vec<Rc<str>>,
    ) -> Vec<Token> {
        let mut out = Vec::new();
        for (at, token) in body.iter().enumerate() {
            let beside = |other: Option<&Token>| other.is_some_and(|other| other.is("##"));
            let index = params.iter().position(|param| token.is_ident() && *param == token.text);
            let before = at.checked_sub(1).and_then(|at| body.get(at));
            match index.and_then(|index| arguments.get(index)) {
                Some(argument) if before.is_some_and(|before| before.is("#")) => {
                    out.pop();
                    let text: Vec<&str> = argument.iter().map(|token| &*token.text).collect();
                    let text = format!("\"{}\"", text.join(" ").replace('\\', "\\\\").replace('"', "\\\""));
                    out.push(Token { kind: TokenKind::Text, text: text.into(), ..token.clone() });
                }
                Some(argument) if beside(before) || beside(body.get(at + 1)) => {
                    // Where the argument is empty nothing stands there, so that nothing else is pasted in its place.
                    let nothing = argument.is_empty().then(|| Token { text: "".into(), ..token.clone() });
                    out.extend(argument.iter().cloned().chain(nothing));
                }
                Some(argument) => out.extend(self.expand(argument.clone(), active)),
                None if index.is_some() => {}
                None => out.push(token.clone()),
            }
        }
        out
    }
}

/// The arguments of a macro that stand from `at` on in brackets, and where they end; none where there are no brackets.
fn arguments(
    tokens: &[Token],
    at: usize,
    count: usize,
    is_variadic: bool,
) -> Option<(Vec<Vec<Token>>, usize)> {
    tokens.get(at).filter(|token| token.is("("))?;
    let mut arguments = vec![Vec::new()];
    let mut depth = 0u32;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        depth = token.brackets(depth);
        if depth == 0 {
            return Some((arguments, index + 1));
        }
        let takes_all = is_variadic && arguments.len() == count;
        if depth == 1 && token.is(",") && !takes_all {
            arguments.push(Vec::new());
        } else if index > at
            && let Some(last) = arguments.last_mut()
        {
            last.push(token.clone());
        }
    }
    None
}

/// The tokens with those beside a `##` made one.
fn pasted(tokens: Vec<Token>) -> Vec<Token> {
    if !tokens.iter().any(|token| token.is("##")) {
        return tokens;
    }
    let mut out: Vec<Token> = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        if !token.is("##") {
            out.push(token);
            continue;
        }
        match (out.pop(), tokens.next()) {
            (Some(left), Some(right)) if left.text.is_empty() => out.push(right),
            (Some(left), Some(right)) => {
                let text: Rc<str> = format!("{}{}", left.text, right.text).into();
                out.push(Token { text, is_final: false, ..left });
            }
            (left, right) => out.extend(left.into_iter().chain(right)),
        }
    }
    out.retain(|token| !token.text.is_empty());
    out
}

/// In conditions all names that are left stand for 0.
struct Zeros;

impl Names for Zeros {
    fn value(&self, _: &str) -> Option<Int> {
        Some(Int::of(0))
    }

    fn size(&mut self, _: &[Token]) -> Option<u32> {
        None
    }
}
