use super::super::super::stacks::fake::{Fake, Text};
use super::*;

const STACK: u64 = 0x9000_0001_0000_0000;
const IRQ_STACK_AT: u64 = 0x9000_0002_0000_0000;
const TASK: u64 = 0x9000_0000_0300_0000;
/// Where the copies of handlers are.
const VECTORS: u64 = 0x9000_0000_0400_0000;
/// `addi.d sp, sp, -32`, `st.d ra, sp, 24`.
const FRAME_OF_32: [u8; 8] = [0x63, 0x80, 0xff, 0x02, 0x61, 0x60, 0xc0, 0x29];
/// Number of words of struct pt_regs.
const WORDS: usize = 41;
const TEXT: Text = Text {
    at: 0x9000_0000_0020_0000,
    names: &[
        "__schedule",
        "kthread",
        "ret_from_kernel_thread",
        "handle_syscall",
        "do_syscall",
        "do_vint",
        "handle_loongarch_irq",
        "leaf",
        "kthread.cold",
    ],
};

fn kernel() -> Fake {
    let mut fake = Fake::new(Endian::Little, "PAGESIZE=16384\n");
    for name in TEXT.names {
        let has_none = ["ret_from_kernel_thread", "handle_syscall", "leaf"].contains(name);
        let code: &[u8] = if has_none { &[] } else { &FRAME_OF_32 };
        fake.function(&TEXT, name, code);
    }
    fake.member("task_struct.thread.reg01", 0)
        .member("task_struct.thread.reg03", 8);
    fake
}

/// Puts the frame at `at` of a function that returns to the middle of `to`.
fn put_frame(fake: &mut Fake, at: u64, to: u64) {
    fake.put(at, &[0, 0, 0, to]);
}

fn registers(era: u64, ra: u64, sp: u64, mode: u64) -> Vec<u64> {
    let mut words = vec![0; WORDS];
    (words[1], words[3], words[33], words[36]) = (ra, sp, era, mode);
    words
}

/// Puts a stack from `__schedule` to the start of a kernel thread.
fn put_sleeper(fake: &mut Fake) {
    fake.put(TASK, &[TEXT.inside("__schedule"), STACK]);
    put_frame(fake, STACK, TEXT.inside("kthread"));
    put_frame(fake, STACK + 32, TEXT.inside("ret_from_kernel_thread"));
    fake.put(STACK + 64, &registers(0, 0, 0, 0));
}

const SLEEPER: [&str; 3] = ["__schedule", "kthread", "ret_from_kernel_thread"];

#[test]
fn sleeping_task_is_unwound_to_where_its_thread_begins() {
    let mut fake = kernel();
    put_sleeper(&mut fake);
    let (found, end) = fake.sleeper(&LoongArch64, TASK);
    assert_eq!(fake.names(&found), SLEEPER);
    assert_eq!(end, End::Reached);
}

#[test]
fn system_call_ends_at_the_registers_of_the_user() {
    let mut fake = kernel();
    fake.put(TASK, &[TEXT.inside("do_syscall"), STACK]);
    put_frame(&mut fake, STACK, TEXT.inside("handle_syscall"));
    fake.put(STACK + 32, &registers(0x1_2000_0000, 0, 0x7fff_0000, 3));
    let (found, end) = fake.sleeper(&LoongArch64, TASK);
    assert_eq!(fake.names(&found), ["do_syscall", "handle_syscall"]);
    assert_eq!(end, End::Reached);
    let user = registers(0x1_2000_0000, 0, 0x7fff_0000, 0);
    assert_eq!(fake.cpu(&LoongArch64, &user), (vec![], End::Reached));
}

#[test]
fn interrupt_is_followed_from_its_stack_to_the_interrupted_code() {
    let mut fake = kernel();
    put_sleeper(&mut fake);
    let top = IRQ_STACK_AT + IRQ_STACK_START;
    let saved = STACK - 0x400;
    put_frame(&mut fake, top - 32, TEXT.inside("do_vint"));
    fake.put(top, &[saved]);
    let words = registers(TEXT.inside("leaf"), TEXT.inside("__schedule"), STACK, 0);
    fake.put(saved, &words);
    let start = registers(TEXT.inside("handle_loongarch_irq"), 0, top - 32, 0);
    let (found, end) = fake.cpu(&LoongArch64, &start);
    let expected = ["handle_loongarch_irq!", "do_vint", "leaf!"];
    assert_eq!(fake.names(&found)[..3], expected);
    assert_eq!(fake.names(&found)[3..], SLEEPER);
    assert_eq!(end, End::Reached);
}

#[test]
fn copy_of_a_handler_leads_to_the_interrupted_code() {
    let mut fake = kernel();
    put_sleeper(&mut fake);
    let saved = STACK - 0x400;
    put_frame(&mut fake, saved - 32, VECTORS + 0x80);
    fake.put(
        saved,
        &registers(
            TEXT.start("kthread") + 4,
            TEXT.inside("__schedule"),
            STACK - 32,
            0,
        ),
    );
    let start = registers(TEXT.inside("do_vint"), 0, saved - 32, 0);
    let (found, end) = fake.cpu(&LoongArch64, &start);
    // It was interrupted between making its frame and keeping its return address.
    assert_eq!(fake.names(&found)[..3], ["do_vint!", "?", "kthread!"]);
    assert_eq!(fake.names(&found)[3..], SLEEPER);
    assert_eq!(end, End::Reached);
}

#[test]
fn damaged_stacks_end_with_a_reason() {
    let mut fake = kernel();
    put_sleeper(&mut fake);
    for to in [0x10, 0xffff_8000_0000_0000, TEXT.inside("kthread.cold")] {
        put_frame(&mut fake, STACK, to);
        let (found, end) = fake.sleeper(&LoongArch64, TASK);
        assert!(matches!(end, End::Cut(_)), "{to:#x}");
        assert!(found.len() < 32, "{to:#x}");
    }
    // Registers that return to the code which saved them.
    fake.put(STACK + 32, &registers(TEXT.inside("kthread"), 0, STACK, 0));
    put_frame(&mut fake, STACK, TEXT.inside("handle_syscall"));
    let (found, end) = fake.sleeper(&LoongArch64, TASK);
    assert!(found.len() < 64 && matches!(end, End::Cut(_)), "{end:?}");
}
