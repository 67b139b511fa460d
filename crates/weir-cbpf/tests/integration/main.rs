//! weir-cbpf from outside, by its public interface: one program, a module for each subject.

mod text;
