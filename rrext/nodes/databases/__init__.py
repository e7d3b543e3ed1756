"""The kit of SQL and graph databases: pool, sessions, the snapshot of the schema and a statement that ends with its call or its
time (`database`), the calls of the tools (`calls`), settings, tools and questions in plain words (`node`), values, failures.

What differs in meaning stands twice, in `nodes/sql` and `nodes/graph`: the transaction (after a failed statement the database
decides whether one of SQL goes on; one of a graph is over, and its error tells whether anything was committed), the lexer (SQL
is read in each way in which a server may read it; Cypher with two readings is refused), and the gate (of SQL it judges
functions and clauses by the table of a dialect; of Cypher each word).
"""
