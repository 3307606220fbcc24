package vicus;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * One engine behind standard input and output: {@code java ... vicus.Peer rdf4j|jena FILE.nt}.
 *
 * <p>It loads the file into memory and writes {@code TRIPLES<TAB>NANOSECONDS}. Then each line that it reads is
 * {@code MILLISECONDS<TAB>FILE.sparql}: a limit and a query. It answers with one line: {@code ROWS<TAB>NANOSECONDS},
 * {@code cut} or {@code error<TAB>MESSAGE}. The time is parse, plan and run together, down to the last row.
 */
final class Peer {
    public static void main(String[] args) throws Exception {
        long began = System.nanoTime();
        Engine engine = open(args[0], Path.of(args[1]));
        System.out.println(engine.triples() + "\t" + (System.nanoTime() - began));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", 2);
            System.out.println(answer(engine, Files.readString(Path.of(parts[1])), Long.parseLong(parts[0])));
        }
        // Threads of a library's own must not keep the process.
        System.exit(0);
    }

    private static Engine open(String name, Path file) throws Exception {
        return switch (name) {
            case "rdf4j" -> new Rdf4j(file);
            case "jena" -> new Jena(file);
            default -> throw new IllegalArgumentException("no engine is called " + name + "; there are rdf4j and jena");
        };
    }

    private static String answer(Engine engine, String query, long limitMillis) {
        long began = System.nanoTime();
        try {
            long rows = engine.rows(query, limitMillis);
            return rows + "\t" + (System.nanoTime() - began);
        } catch (Exception | OutOfMemoryError | StackOverflowError error) {
            return engine.isCut(error) ? "cut" : "error\t" + error.toString().replaceAll("\\s+", " ");
        }
    }

    private Peer() {}
}
