//! weir-cbpf from outside, by its public interface: one program, a module for each subject.

mod engines;
mod generate;

mod check;
mod convert;
mod kernel;
mod run;
mod text;
