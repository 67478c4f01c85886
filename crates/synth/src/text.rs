//! The text form of a machine.

use std::ops::Range;

use crate::error::SynthError;
use crate::kernels::{HeadLink, Kernel, presets};
use crate::platform::{Platform, size_shift};
use crate::printk::KernelLog;
use crate::spec::{Class, Fill, Leaf, Options, Run, Spec, VmcoreinfoPlace};

/// Parses the text form, which the crate's documentation describes.
pub(crate) fn parse(text: &str) -> Result<Spec, SynthError> {
    let mut spec: Option<Spec> = None;
    let mut platform = Platform::default();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let meaning = raw.split('#').next().unwrap_or_default();
        for statement in meaning.split(';') {
            let words: Vec<&str> = statement.split_whitespace().collect();
            let Some((&first, rest)) = words.split_first() else {
                continue;
            };
            if first == "arch" {
                if spec.is_some() {
                    return Err(SynthError::line(line, "`arch` comes before `kernel`"));
                }
                platform = Platform::from_words(line, rest)?;
                continue;
            }
            if first == "kernel" {
                if spec.is_some() {
                    return Err(SynthError::line(line, "a second `kernel`"));
                }
                spec = Some(kernel_line(line, rest, platform)?);
                continue;
            }
            let Some(spec) = spec.as_mut() else {
                return Err(SynthError::line(
                    line,
                    "`kernel VERSION` must come before everything else",
                ));
            };
            match first {
                "ram" => ranges(line, rest, &mut spec.ram)?,
                "node" => node_line(line, rest, &mut spec.nodes)?,
                "pages" => run_words(line, rest, spec)?,
                "log" => spec.log = Some(KernelLog::from_words(line, rest)?),
                // After `;` the word `pages` may be omitted.
                _ if first.starts_with(|c: char| c.is_ascii_digit()) => {
                    run_words(line, &words, spec)?;
                }
                _ => return Err(SynthError::line(line, format!("unknown word `{first}`"))),
            }
        }
    }
    spec.ok_or_else(|| SynthError::line(1, "no `kernel` line"))
}

fn kernel_line(line: usize, words: &[&str], platform: Platform) -> Result<Spec, SynthError> {
    let Some((&name, settings)) = words.split_first() else {
        return Err(SynthError::line(line, "`kernel` needs a version"));
    };
    let Some(kernel) = Kernel::named(name) else {
        return Err(SynthError::line(
            line,
            format!(
                "unknown kernel `{name}`; there are {}",
                presets().join(", ")
            ),
        ));
    };
    let mut spec = Spec::on(platform, kernel);
    for &setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            return Err(SynthError::line(
                line,
                format!("`{setting}` is not KEY=VALUE"),
            ));
        };
        set_option(line, &platform, &mut spec.options, key, value)?;
    }
    spec.check_options(line)?;
    Ok(spec)
}

fn set_option(
    line: usize,
    platform: &Platform,
    options: &mut Options,
    key: &str,
    value: &str,
) -> Result<(), SynthError> {
    let number = || number(line, value);
    let leaf = || {
        let all = [Leaf::Small, Leaf::Contiguous, Leaf::Large, Leaf::Giant];
        let shift = size_shift(value);
        let found = all
            .into_iter()
            .find(|leaf| shift.is_some() && platform.leaf_shift(*leaf) == shift);
        found.ok_or_else(|| SynthError::line(line, format!("`{key}={value}`: no such leaf")))
    };
    match key {
        "levels" => options.levels = u8::try_from(number()?).unwrap_or(0),
        "kaslr" => options.kaslr = number()?,
        "phys_base" => options.phys_base = Some(signed(line, value)?),
        "page_offset" => options.page_offset = Some(number()?),
        "vmemmap" => options.vmemmap = Some(number()?),
        "direct" => options.direct = leaf()?,
        "vmemmap_leaf" => options.vmemmap_leaf = leaf()?,
        "image_leaf" => options.image_leaf = leaf()?,
        "sme" => options.sme = Some(u8::try_from(number()?).unwrap_or(0)),
        "mem_section" => options.mem_section = Some(number()?),
        "cpus" => options.cpus = u32::try_from(number()?).unwrap_or(u32::MAX),
        "stack" => options.stack = number()?,
        "vmalloc" => options.vmalloc = number()?,
        "nr_free_skew" => options.nr_free_skew = signed(line, value)?,
        "vmcoreinfo" => {
            options.vmcoreinfo = match value {
                "note" => VmcoreinfoPlace::Note,
                "page" => VmcoreinfoPlace::Page,
                "both" => VmcoreinfoPlace::Both,
                "none" => VmcoreinfoPlace::None,
                _ => {
                    return Err(SynthError::line(
                        line,
                        "vmcoreinfo=: expected note, page, both or none",
                    ));
                }
            }
        }
        "memory_failure" => {
            options.memory_failure = match value {
                "yes" => true,
                "no" => false,
                _ => {
                    return Err(SynthError::line(
                        line,
                        "memory_failure=: expected yes or no",
                    ));
                }
            }
        }
        "compound_info" => {
            options.head_link = Some(match value {
                "mask" => HeadLink::InfoMask,
                "pointer" => HeadLink::Pointer,
                _ => {
                    return Err(SynthError::line(
                        line,
                        "compound_info=: expected mask or pointer",
                    ));
                }
            });
        }
        _ => return Err(SynthError::line(line, format!("unknown setting `{key}`"))),
    }
    Ok(())
}

fn node_line(line: usize, words: &[&str], nodes: &mut Vec<Range<u64>>) -> Result<(), SynthError> {
    let [id, range] = words else {
        return Err(SynthError::line(line, "want `node NUMBER FIRST-LAST`"));
    };
    if number(line, id)? != nodes.len() as u64 {
        return Err(SynthError::line(
            line,
            format!("expected node {} next", nodes.len()),
        ));
    }
    ranges(line, &[range], nodes)
}

/// Parses `FIRST-LAST`, both included.
fn ranges(line: usize, words: &[&str], out: &mut Vec<Range<u64>>) -> Result<(), SynthError> {
    if words.is_empty() {
        return Err(SynthError::line(line, "want FIRST-LAST"));
    }
    for word in words {
        let Some((first, last)) = word.split_once('-') else {
            return Err(SynthError::line(
                line,
                format!("`{word}` is not FIRST-LAST"),
            ));
        };
        let (first, last) = (number(line, first)?, number(line, last)?);
        if last < first || last >= 1 << 40 {
            return Err(SynthError::line(
                line,
                format!("`{word}` is not a range of page frames"),
            ));
        }
        out.push(first..last + 1);
    }
    Ok(())
}

fn run_words(line: usize, words: &[&str], spec: &mut Spec) -> Result<(), SynthError> {
    let [pfn, class, rest @ ..] = words else {
        return Err(SynthError::line(line, "want `pages FRAME CLASS`"));
    };
    let (class_id, order) = class_word(class)
        .ok_or_else(|| SynthError::line(line, format!("unknown class `{class}`")))?;
    let mut run = Run::new(number(line, pfn)?, class_id, order, 1);
    run.line = line;
    run.hwpoison = *class == "hwpoison";
    for word in rest {
        match word.split_once('=') {
            Some(("n", value)) => run.count = number(line, value)?,
            Some(("order", value)) => {
                run.order = u8::try_from(number(line, value)?).unwrap_or(u8::MAX);
            }
            Some(("badorder", value)) => run.bad_order = Some(number(line, value)?),
            Some(("fill", value)) => run.fill = fill(line, value)?,
            None if *word == "private" => run.private = true,
            None if *word == "dirty" => run.dirty = true,
            None if *word == "hwpoison" => run.hwpoison = true,
            None if *word == "anonbit" => run.anon_bit = true,
            None if *word == "hvo" => run.hvo = true,
            _ => return Err(SynthError::line(line, format!("unknown word `{word}`"))),
        }
    }
    spec.check_run(&run)?;
    spec.runs.push(run);
    Ok(())
}

/// Returns a class and its default order; `thp` and `hwpoison` are abbreviations.
fn class_word(word: &str) -> Option<(Class, u8)> {
    if word == "thp" {
        return Some((Class::Anon, 9));
    }
    if word == "hwpoison" {
        return Some((Class::Kernel, 0));
    }
    let (_, class) = Class::ALL.iter().find(|(name, _)| *name == word)?;
    let order = match class {
        Class::Hugetlb => 9,
        Class::Unaccepted => 10,
        _ => 0,
    };
    Some((*class, order))
}

fn fill(line: usize, value: &str) -> Result<Fill, SynthError> {
    let (kind, argument) = value.split_once(':').unwrap_or((value, ""));
    Ok(match kind {
        "stamp" => Fill::Stamp,
        "zero" => Fill::Zero,
        "const" => Fill::Const(
            u8::try_from(number(line, argument)?)
                .map_err(|_| SynthError::line(line, "fill=const: expected a byte"))?,
        ),
        "random" if argument.is_empty() => Fill::Random(0),
        "random" => Fill::Random(number(line, argument)?),
        "same" => Fill::Same(number(line, argument)?),
        _ => return Err(SynthError::line(line, format!("unknown fill `{value}`"))),
    })
}

fn number(line: usize, word: &str) -> Result<u64, SynthError> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    parsed.map_err(|_| SynthError::line(line, format!("`{word}` is not a number")))
}

pub(crate) fn signed(line: usize, word: &str) -> Result<i64, SynthError> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let value = i64::try_from(number(line, digits)?)
        .map_err(|_| SynthError::line(line, format!("`{word}` is too large")))?;
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    /// Every error names its line and the wrong word.
    #[test]
    fn errors_name_the_line_and_the_word() {
        let cases = [
            ("", "line 1: no `kernel` line"),
            ("ram 0x0-0x1", "line 1: `kernel VERSION` must come"),
            ("\nkernel 2.4", "line 2: unknown kernel `2.4`"),
            ("kernel 6.1 levels=3", "line 1: levels="),
            ("kernel 6.1 colour=red", "line 1: unknown setting `colour`"),
            ("kernel 6.1 colour", "line 1: `colour` is not KEY=VALUE"),
            ("kernel 6.1 compound_info=mask", "line 1: compound_info="),
            ("kernel 4.19 sme=47", "line 1: sme="),
            ("kernel 6.1 vmemmap=0x1000", "line 1: page_offset="),
            ("kernel 6.1\nkernel 6.1", "line 2: a second `kernel`"),
            ("kernel 6.1\nram 5-3", "line 2: `5-3` is not a range"),
            ("kernel 6.1\nram 5", "line 2: `5` is not FIRST-LAST"),
            ("kernel 6.1\nnode 1 0-9", "line 2: expected node 0"),
            ("kernel 6.1\nbogus", "line 2: unknown word `bogus`"),
            ("kernel 6.1\npages 1", "line 2: want `pages FRAME CLASS`"),
            ("kernel 6.1\npages 1 blue", "line 2: unknown class `blue`"),
            ("kernel 6.1\npages zz anon", "line 2: `zz` is not a number"),
            (
                "kernel 6.1\npages 1 anon; 2 anon red",
                "line 2: unknown word `red`",
            ),
            (
                "kernel 6.1\npages 1 free order=9",
                "line 2: page frame 0x1 is not aligned",
            ),
            (
                "kernel 6.1\npages 0 free order=11",
                "line 2: order=11 is above",
            ),
            (
                "kernel 6.1\npages 0 offline order=1",
                "line 2: `offline` pages have no order",
            ),
            (
                "kernel 6.1\npages 0 anon private",
                "line 2: `private` is for",
            ),
            (
                "kernel 6.1\npages 0 anon fill=red",
                "line 2: unknown fill `red`",
            ),
            (
                "kernel 4.19\npages 0 offline",
                "line 2: 4.19 has no offline",
            ),
            (
                "kernel 6.12\npages 0 unaccepted",
                "line 2: 6.12 has no unaccepted",
            ),
            (
                "kernel 6.1 memory_failure=no\npages 0 hwpoison",
                "line 2: `hwpoison` needs",
            ),
            ("kernel 6.1\npages 0 hugetlb hvo", "line 2: `hvo` is for"),
        ];
        for (text, expected) in cases {
            let message = message(text);
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }

    /// Comments, several statements per line and both kinds of numbers are parsed.
    #[test]
    fn complete_text_is_parsed() {
        let spec = parse(
            "# a machine\n\
             kernel 6.12 levels=5 kaslr=0x1e00000 phys_base=-0x200000 direct=1g\n\
             ram 0x0-0x9f 256-0x7fff # two ranges\n\
             pages 0x200 free order=9 ; 0x400 cache n=16 private dirty fill=random:7\n",
        )
        .unwrap();
        assert_eq!(spec.options.phys_base, Some(-0x20_0000));
        assert_eq!(spec.options.direct, Leaf::Giant);
        assert_eq!(spec.ram, [0..0xa0, 0x100..0x8000]);
        assert_eq!(spec.runs[0].frames(), 0x200..0x400);
        let cache = spec.runs[1];
        assert_eq!((cache.count, cache.fill), (16, Fill::Random(7)));
        assert!(cache.private && cache.dirty);
    }
}
