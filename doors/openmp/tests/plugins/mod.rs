//! Programs that open and close what uses OpenMP, and Fortran's module by another compiler.

use super::{STRATEGIES, for_c, for_fortran, library, output, programs, run, run_command, scratch, sizes};
use std::fs;
use std::process::Command;

/// flang's functions of the module have fewer forms, so its answers are its own: they are the same with this library as
/// with the compiler's, if it compiles the program.
#[test]
fn calls_of_flang_s_module() {
    let Some(compiler) = for_fortran().iter().find(|compiler| compiler.name == "flang") else { return };
    let program = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("fortran_library-flang");
    let mut command = Command::new(compiler.command);
    command.current_dir(vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR"))).args(["-O1", "-fopenmp"]);
    let built = command.arg(programs().join("fortran_library.f90")).arg("-o").arg(&program).output();
    let built = built.expect("the compiler was there a moment ago");
    if !built.status.success() {
        eprintln!("left out: {} has no calls with integers of 8 bytes", compiler.command);
        return;
    }
    let own = run(&program, "las", 2, &[("LD_PRELOAD", "")]);
    assert!(own.0 == Some(0) && own.1.lines().count() > 40, "{own:?}");
    for strategy in STRATEGIES.map(|strategy| strategy.name()) {
        for threads in [1, 2, 4, 8] {
            assert_eq!(run(&program, strategy, threads, &[]), own, "{strategy}, {threads} threads");
        }
    }
}

/// The flags of a library by which the loader treats it (`DT_FLAGS_1`), out of an ELF file of 64 bits, the lowest byte
/// first.
fn loader_flags(file: &[u8]) -> u64 {
    let number = |at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&file[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    assert_eq!(&file[..6], b"\x7fELF\x02\x01");
    let (table, size, count) = (number(32, 8) as usize, number(54, 2) as usize, number(56, 2) as usize);
    let headers = (0..count).map(|at| table + at * size);
    let dynamic = headers.into_iter().find(|&at| number(at, 4) == 2).expect("a library has a dynamic section");
    let (offset, bytes) = (number(dynamic + 8, 8) as usize, number(dynamic + 32, 8) as usize);
    let flags = (offset..offset + bytes).step_by(16).find(|&at| number(at, 8) == 0x6fff_fffb);
    flags.map_or(0, |at| number(at + 8, 8))
}

/// The loader pins a library with destructors of threads that live, so programs pass without this flag as well, until
/// their threads end.
#[test]
fn the_library_refuses_to_be_unloaded() {
    const NO_DELETE: u64 = 8;
    let flags = loader_flags(&fs::read(library()).expect("it was built"));
    assert_eq!(flags & NO_DELETE, NO_DELETE, "{flags:#x}");
}

/// What happened: a plugin opened with RTLD_DEEPBIND, closed and opened again, ended in SIGSEGV, because the library
/// had been unloaded under its threads.
#[test]
fn plugins_are_opened_closed_and_opened_again() {
    let folder = scratch("plugins");
    fs::create_dir_all(&folder).expect("a folder can be made");
    // The names by which the compilers' programs ask for their runtimes.
    for name in ["libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"] {
        let _ = std::os::unix::fs::symlink(library(), folder.join(name));
    }
    let search = folder.display().to_string();
    for compiler in for_c() {
        let build = |name: &str, flags: &[&str]| {
            let out = folder.join(format!("{name}-{}", compiler.name));
            let mut command = Command::new(compiler.command);
            command.args(["-O1", "-w"]).args(flags).arg(programs().join("opened.c")).arg("-ldl").arg("-o").arg(&out);
            output(&mut command);
            out
        };
        let plugin = ["-DPLUGIN", "-shared", "-fPIC", "-fopenmp"];
        let (program, plugins) = (build("program", &[]), [build("one", &plugin), build("two", &plugin)]);
        for (number, strategy) in STRATEGIES.map(|strategy| strategy.name()).into_iter().enumerate() {
            for threads in sizes(number) {
                let mut command = Command::new(&program);
                command.args(&plugins);
                let variables = [("LD_PRELOAD", ""), ("LD_LIBRARY_PATH", search.as_str())];
                let ran = run_command(&mut command, strategy, threads, &variables);
                assert_eq!(ran, (Some(0), "ok\n".to_owned()), "{}, {strategy}, {threads} threads", compiler.name);
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
}
