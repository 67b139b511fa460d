//! The place of a tracepoint: its test, its nop and its two notes (docs/tracepoint-format.md).
//!
//! `__way!` counts arguments: those that are more than registers go into a row of words. `__site!` takes the fields one by one and
//! collects what each comes to: `{ provider event level way } [arguments] [records] [[values] [operands]] [statements] [names] fields…`
//! - arguments: text of the stapsdt note, each with a blank before it; records: text of the weir note;
//! - values: names of the arguments; operands: what else the compiler fills in there; statements: values, and tables that operands name;
//! - names: two for each argument that there may still be, of its value and of something else that its record needs.
//!
//! Values are in 64-bit registers, of which the note names the part that the type has; or all of them in a row.

/// `registers` or `row`, for the fields: by how many names are left of twelve, of which each argument takes one.
#[doc(hidden)]
#[macro_export]
macro_rules! __way {
    ($site:tt $all:tt [$($one:ident)?] (str, $($field:tt)*) $($rest:tt)*) => { $crate::__row!($site $all) };
    ($site:tt $all:tt [$($one:ident)?] ([$ty:ident], $($field:tt)*) $($rest:tt)*) => { $crate::__row!($site $all) };
    ($site:tt $all:tt [] $($rest:tt)+) => { $crate::__row!($site $all) };
    ($site:tt $all:tt [$a:ident $b:ident $($names:ident)*] (str, $($field:tt)*) $($rest:tt)*) => {
        $crate::__way!($site $all [$($names)*] $($rest)*)
    };
    ($site:tt $all:tt [$a:ident $b:ident $($names:ident)*] ([$ty:ident], $($field:tt)*) $($rest:tt)*) => {
        $crate::__way!($site $all [$($names)*] $($rest)*)
    };
    ($site:tt $all:tt [$a:ident $($names:ident)*] $field:tt $($rest:tt)*) => {
        $crate::__way!($site $all [$($names)*] $($rest)*)
    };
    ({ $($site:tt)* } { $($field:tt)* } $names:tt) => {
        $crate::__site!(
            { $($site)* registers } [] [] [[] []] []
            [a a2 b b2 c c2 d d2 e e2 f f2 g g2 h h2 i i2 j j2 k k2 l l2]
            $($field)*
        )
    };
}

/// The fields of an event whose arguments are in a row: names for 64 words.
#[doc(hidden)]
#[macro_export]
macro_rules! __row {
    ({ $($site:tt)* } { $($field:tt)* }) => {
        $crate::__site!(
            { $($site)* row } [] [] [[] []] []
            [a0 a0x a1 a1x a2 a2x a3 a3x a4 a4x a5 a5x a6 a6x a7 a7x b0 b0x b1 b1x b2 b2x b3 b3x b4 b4x b5 b5x b6 b6x b7
             b7x c0 c0x c1 c1x c2 c2x c3 c3x c4 c4x c5 c5x c6 c6x c7 c7x d0 d0x d1 d1x d2 d2x d3 d3x d4 d4x d5 d5x d6 d6x
             d7 d7x e0 e0x e1 e1x e2 e2x e3 e3x e4 e4x e5 e5x e6 e6x e7 e7x f0 f0x f1 f1x f2 f2x f3 f3x f4 f4x f5 f5x f6
             f6x f7 f7x g0 g0x g1 g1x g2 g2x g3 g3x g4 g4x g5 g5x g6 g6x g7 g7x h0 h0x h1 h1x h2 h2x h3 h3x h4 h4x h5 h5x
             h6 h6x h7 h7x]
            $($field)*
        )
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    // Numbers.
    ($site:tt $args:tt $records:tt $operands:tt $do:tt $names:tt (f32, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__number!($site $args $records $operands $do $names
            ("1, 2, ", u32, f32::to_bits, $name, $value) $($rest)*)
    };
    ($site:tt $args:tt $records:tt $operands:tt $do:tt $names:tt (f64, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__number!($site $args $records $operands $do $names
            ("1, 2, ", u64, f64::to_bits, $name, $value) $($rest)*)
    };
    ($site:tt $args:tt $records:tt $operands:tt $do:tt $names:tt
     (hex $ty:ident, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__number!($site $args $records $operands $do $names
            ("1, 1, ", $ty, ::core::convert::identity::<$ty>, $name, $value) $($rest)*)
    };

    // Addresses.
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] [$a:ident $a2:ident $($names:ident)*]
     (ptr, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site [$($arg)* " ", "8@{", ::core::stringify!($a), "}",]
            [$($record)* $crate::__record!("1, 1, 8", $name),]
            [[$($value_of)* $a] [$($operand)*]]
            [$($do)* let $a: *const _ = $value; let $a = $a as u64;]
            [$($names)*] $($rest)*)
    };
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] [$a:ident $a2:ident $($names:ident)*]
     (CStr, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site [$($arg)* " ", "8@{", ::core::stringify!($a), "}",]
            [$($record)* $crate::__record!("2, 0, 1", $name),]
            [[$($value_of)* $a] [$($operand)*]]
            [$($do)*
             let $a: ::core::option::Option<&::core::ffi::CStr> = ::core::convert::Into::into($value);
             let $a = $a.map_or(0, |text| text.as_ptr() as u64);]
            [$($names)*] $($rest)*)
    };

    // An address and a count.
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*]
     [$a:ident $a2:ident $b:ident $b2:ident $($names:ident)*] (str, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site
            [$($arg)* " ", "8@{", ::core::stringify!($a), "} 8@{", ::core::stringify!($b), "}",]
            [$($record)* $crate::__record!("4, 3, 1", $name),]
            [[$($value_of)* $a $b] [$($operand)*]]
            [$($do)* let $a: &str = $value; let ($a, $b) = ($a.as_ptr() as u64, $a.len() as u64);]
            [$($names)*] $($rest)*)
    };
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*]
     [$a:ident $a2:ident $b:ident $b2:ident $($names:ident)*]
     ([$ty:ident], $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site
            [$($arg)* " ", "8@{", ::core::stringify!($a), "} 8@{", ::core::stringify!($b), "}",]
            [$($record)* $crate::__record!(4, $a2, $name),]
            [[$($value_of)* $a $b] [$($operand)* $a2 = const <$ty as $crate::Number>::CODE,]]
            [$($do)* let $a: &[$ty] = $value; let ($a, $b) = ($a.as_ptr() as u64, $a.len() as u64);]
            [$($names)*] $($rest)*)
    };
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] [$a:ident $a2:ident $($names:ident)*]
     ([$ty:ident; $count:expr], $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site [$($arg)* " ", "8@{", ::core::stringify!($a), "}",]
            [$($record)* $crate::__record!(3, $a2, $name),]
            [[$($value_of)* $a]
             [$($operand)* $a2 = const <$ty as $crate::Number>::CODE + (($count as i64) << 16),]]
            [$($do)* let $a: &[$ty; $count] = $value; let $a = $a.as_ptr() as u64;]
            [$($names)*] $($rest)*)
    };

    // What has a table.
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] [$a:ident $a2:ident $($names:ident)*]
     (enum $ty:ident { $($label:ident = $number:expr),+ $(,)? }, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site
            [$($arg)* " ", $crate::__bytes!($ty), "@{", ::core::stringify!($a), $crate::__part!($ty), "}",]
            [$($record)* $crate::__record!(table ::core::concat!("5, 0, ", $crate::__bytes!($ty)), $a2, $name),]
            [[$($value_of)* $a] [$($operand)* $a2 = sym $a2,]]
            [$($do)*
             #[allow(non_upper_case_globals, reason = "names are given by the macro")]
             static $a2: [$crate::Row; [$(::core::stringify!($label)),+].len() + 1] = [
                $($crate::label(::core::stringify!($label), {
                    let number: $ty = $number;
                    number as i64
                }),)+
                $crate::Row::END,
             ];
             let $a: $ty = $value;
             let $a = $a as u64;]
            [$($names)*] $($rest)*)
    };
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] [$a:ident $a2:ident $($names:ident)*]
     (struct $struct:ident { $($member:ident: $ty:ident),+ $(,)? }, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site [$($arg)* " ", "8@{", ::core::stringify!($a), "}",]
            [$($record)* $crate::__record!(table "6, 0, 0", $a2, $name),]
            [[$($value_of)* $a] [$($operand)* $a2 = sym $a2,]]
            [$($do)*
             #[allow(non_upper_case_globals, reason = "names are given by the macro")]
             static $a2: [$crate::Row; [$(::core::stringify!($member)),+].len() + 1] = [
                $($crate::member(
                    ::core::stringify!($member),
                    ::core::mem::offset_of!($struct, $member),
                    <$ty as $crate::Number>::CODE,
                ),)+
                $crate::Row::END,
             ];
             let $a: &$struct = $value;
             $(let _: $ty = $a.$member;)+
             let $a = ::core::ptr::from_ref($a) as u64;]
            [$($names)*] $($rest)*)
    };

    // Any other word is an integer type.
    ($site:tt $args:tt $records:tt $operands:tt $do:tt $names:tt
     ($ty:ident, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__number!($site $args $records $operands $do $names
            ("1, 0, ", $ty, ::core::convert::identity::<$ty>, $name, $value) $($rest)*)
    };
    ($site:tt $args:tt $records:tt $operands:tt $do:tt $names:tt ($($field:tt)*) $($rest:tt)*) => {
        ::core::compile_error!(::core::concat!("weir: (", ::core::stringify!($($field)*), ") is no field of a \
            tracepoint, or one too many; see the documentation of `tracepoint!`"))
    };

    // All fields are taken.
    ({ $provider:ident $event:ident $level:ident row } $args:tt [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] $names:tt) => {
        $crate::__where_not_zero!(($crate::__semaphore!($provider $event)) {
            $($do)*
            let row = [$($value_of),*];
            $crate::__place_with_row!(
                ($crate::__notes!(
                    $crate::__semaphore!($provider $event),
                    ::core::stringify!($provider),
                    ::core::stringify!($event),
                    $crate::__row_argument!(),
                    ::core::concat!($($record)*)
                ))
                row
                $($operand)*
                weir = const $crate::Level::$level as u32 | 256,
            )
        })
    };
    ({ $provider:ident $event:ident $level:ident registers }
     [$(" ", $($arg:tt)*)?] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] $names:tt) => {
        $crate::__where_not_zero!(($crate::__semaphore!($provider $event)) {
            $($do)*
            $crate::__place!(
                ($crate::__notes!(
                    $crate::__semaphore!($provider $event),
                    ::core::stringify!($provider),
                    ::core::stringify!($event),
                    ::core::concat!($($($arg)*)?),
                    ::core::concat!($($record)*)
                ))
                $($value_of = in(reg) $value_of,)*
                $($operand)*
                weir = const $crate::Level::$level as u8,
            )
        })
    };
}

/// A field that is passed as a number: kind and form of its record, its integer type, and what makes that of the value.
#[doc(hidden)]
#[macro_export]
macro_rules! __number {
    ($site:tt [$($arg:tt)*] [$($record:tt)*] [[$($value_of:ident)*] [$($operand:tt)*]] [$($do:tt)*] [$a:ident $a2:ident $($names:ident)*]
     ($form:literal, $ty:ident, $bits:expr, $name:ident, $value:expr) $($rest:tt)*) => {
        $crate::__site!($site
            [$($arg)* " ", $crate::__bytes!($ty), "@{", ::core::stringify!($a), $crate::__part!($ty), "}",]
            [$($record)* $crate::__record!(::core::concat!($form, $crate::__bytes!($ty)), $name),]
            [[$($value_of)* $a] [$($operand)*]]
            [$($do)* let $a = $bits($value) as u64;]
            [$($names)*] $($rest)*)
    };
    ($site:tt $args:tt $records:tt $operands:tt $do:tt [] $field:tt $($rest:tt)*) => {
        ::core::compile_error!("weir: an event has at most 64 words; a `str` and a slice take two")
    };
}

/// Size of an integer type as the notes have it: negative for signed ones.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __bytes {
    (u8) => { "1" };
    (bool) => { "1" };
    (u16) => { "2" };
    (u32) => { "4" };
    (char) => { "4" };
    (u64) => { "8" };
    (usize) => { "8" };
    (i8) => { "-1" };
    (i16) => { "-2" };
    (i32) => { "-4" };
    (i64) => { "-8" };
    (isize) => { "-8" };
    ($ty:ident) => {
        ::core::compile_error!(::core::concat!("weir: `", ::core::stringify!($ty), "` is no type of a \
            tracepoint's field; see the documentation of `tracepoint!`"))
    };
}

/// A field's record: kind, form and bytes, then how many, the address of a table, the name. `table`: an operand is the table;
/// a relocation that changes nothing ties it to the code, with which the linker keeps it. The last form has form, bytes and count
/// in an operand, as `Number::CODE` has them.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __record {
    (table $head:expr, $table:ident, $name:ident) => {
        ::core::concat!(
            ".popsection; .reloc 770b, ", $crate::__no_relocation!(), ", {", ::core::stringify!($table), "}\n",
            ".pushsection .note.weir,\"?\",@note\n",
            ".byte ", $head, ", 0; .4byte 0; .8byte {", ::core::stringify!($table), "}; .asciz \"",
            ::core::stringify!($name), "\"\n"
        )
    };
    ($head:expr, $name:ident) => {
        ::core::concat!(
            ".byte ", $head, ", 0; .4byte 0; .8byte 0; .asciz \"", ::core::stringify!($name), "\"\n"
        )
    };
    ($kind:literal, $code:ident, $name:ident) => {
        ::core::concat!(
            ".byte ", $kind, ", ({", ::core::stringify!($code), "} >> 8) & 255, {", ::core::stringify!($code),
            "} & 255, 0; .4byte {", ::core::stringify!($code), "} >> 16; .8byte 0; .asciz \"",
            ::core::stringify!($name), "\"\n"
        )
    };
}

/// One for an event of a program or library, whatever number of places it has; the same as in C.
#[doc(hidden)]
#[macro_export]
macro_rules! __semaphore {
    ($provider:ident $event:ident) => {
        ::core::concat!("weir.semaphore.", ::core::stringify!($provider), ".", ::core::stringify!($event))
    };
}

/// The nop that tracers replace; the first of all definitions of the semaphore; the notes, in the group of the code that they are about.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __notes {
    ($semaphore:expr, $provider:expr, $event:expr, $arguments:expr, $records:expr) => {
        ::core::concat!(
            $crate::__nop!("770"),
            ".ifndef ", $semaphore, "\n",
            ".pushsection .probes,\"awG\",@progbits,", $semaphore, ",comdat\n",
            ".balign 2; .weak ", $semaphore, "; .hidden ", $semaphore, "\n",
            ".type ", $semaphore, ",@object; .size ", $semaphore, ",2\n",
            $semaphore, ": .2byte 0\n",
            ".popsection; .endif\n",
            ".ifndef _.stapsdt.base\n",
            ".pushsection .stapsdt.base,\"aG\",@progbits,.stapsdt.base,comdat\n",
            ".weak _.stapsdt.base; .hidden _.stapsdt.base\n",
            "_.stapsdt.base: .space 1; .size _.stapsdt.base,1\n",
            ".popsection; .endif\n",
            ".pushsection .note.stapsdt,\"?\",@note\n",
            ".balign 4; .4byte 772f-771f, 774f-773f, 3\n",
            "771: .asciz \"stapsdt\"\n",
            "772: .balign 4\n",
            "773: .8byte 770b, _.stapsdt.base, ", $semaphore, "\n",
            ".asciz \"", $provider, "\", \"", $event, "\", \"", $arguments, "\"\n",
            "774: .balign 4\n",
            ".popsection\n",
            ".pushsection .note.weir,\"?\",@note\n",
            ".balign 4; .4byte 772f-771f, 774f-773f, 1\n",
            "771: .asciz \"weir\"\n",
            "772: .balign 4\n",
            "773: .8byte 770b, {weir}\n",
            $records,
            "774: .balign 4\n",
            ".popsection\n",
        )
    };
}
