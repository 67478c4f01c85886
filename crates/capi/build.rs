//! Names the shared library for the loader. The number goes up with changes that
//! break programs which are linked with it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libbigiron_mem.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
