//! Compiles the XDP programs in `xdp/` for the kernel's virtual machine, and writes each as a table
//! of instructions for `src/afxdp/program.rs`.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::{R_BPF_64_32, R_BPF_64_64};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
};

const PROGRAMS: [&str; 2] = ["redirect", "metadata"];
const INSTRUCTION_LENGTH: u64 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=xdp");
    println!("cargo::rerun-if-env-changed=CLANG");
    let output = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let mut tables = String::new();
    for name in PROGRAMS {
        let object = output.join(name).with_extension("o");
        compile(&Path::new("xdp").join(name).with_extension("c"), &object)?;
        write_table(name, &std::fs::read(object)?, &mut tables)?;
    }
    std::fs::write(output.join("programs.rs"), tables)?;
    Ok(())
}

fn compile(source: &Path, object: &Path) -> Result<(), Box<dyn Error>> {
    let compiler = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let arguments =
        ["-target", "bpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o"];
    let status = Command::new(&compiler).args(arguments).arg(object).arg(source).status();
    let status = status.map_err(|error| {
        format!(
            "cannot run {compiler}, which compiles the XDP programs: {error}; \
             install it (`make packages`, or Debian's package clang) or name another by CLANG"
        )
    })?;
    if !status.success() {
        return Err(format!("{compiler} could not compile {}", source.display()).into());
    }
    Ok(())
}

/// Writes the instructions of the program and which of them refer to something by name.
fn write_table(name: &str, bytes: &[u8], tables: &mut String) -> Result<(), Box<dyn Error>> {
    let file = object::File::parse(bytes)?;
    let text = file.section_by_name(".text").ok_or("a program has a section .text")?;
    let instructions = text.data()?.chunks_exact(INSTRUCTION_LENGTH as usize);
    let instructions = instructions.map(<[u8; 8]>::try_from).collect::<Result<Vec<_>, _>>()?;
    writeln!(tables, "static {}: Code = Code {{", name.to_uppercase())?;
    writeln!(tables, "    instructions: &[")?;
    for instruction in instructions {
        writeln!(tables, "        {:#018x},", u64::from_le_bytes(instruction))?;
    }
    writeln!(tables, "    ],\n    references: &[")?;
    for (offset, relocation) in text.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            return Err(format!("{name}: a reference to no symbol").into());
        };
        let target = file.symbol_by_index(symbol)?.name()?;
        let kind = match relocation.flags() {
            RelocationFlags::Elf { r_type: R_BPF_64_64 } => "Map",
            RelocationFlags::Elf { r_type: R_BPF_64_32 } => "Function",
            flags => return Err(format!("{name}: unknown reference to {target}: {flags:?}").into()),
        };
        let index = offset / INSTRUCTION_LENGTH;
        writeln!(
            tables,
            "        Reference {{ index: {index}, target: Target::{kind}({target:?}) }},"
        )?;
    }
    writeln!(tables, "    ],\n}};")?;
    Ok(())
}
