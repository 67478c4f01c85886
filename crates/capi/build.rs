//! Sets the soname of the shared library. Its number increases with changes that break programs
//! linked with the library.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbigiron_mem.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
