package vicus;

/** A store that has loaded its data and answers queries. */
interface Engine {
    long triples();

    /** Parses, plans and runs a query, and looks at every row: how many they are, 1 or 0 for ASK. */
    long rows(String query, long limitMillis) throws Exception;

    /** Whether this is how the engine says that a query ran into its limit. */
    boolean isCut(Throwable error);
}
