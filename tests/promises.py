"""What rrext promises: id → behaviour.

A test that proves one is marked `@pytest.mark.promise("id")`. A promise without a test, and a mark without a
promise, fail `tests/house/test_promises.py`.
"""

from __future__ import annotations

PROMISES: dict[str, str] = {
    # engine and pipes
    "engine:plain-data": "The same promise tests pass on the engine itself and on an engine behind a byte pipe",
    "call:nested:no-deadlock": "Tools that call tools finish with `--threads 1`; cycles are refused at load, depth is capped",
    "tasks:isolated": "A task in a process of its own that crashes, blocks or leaks takes down no other task",
    "tasks:forked": "A forked process of a task has nothing of another one; it lives on if what forked it dies",
    "tasks:death-told": "Calls, events and status of a task whose process died tell its exit code and its last words",
    "tasks:sent-told": "A call that a lost process leaves without an answer tells whether it may have reached the process",
    "cluster:one-answer": "A call has one answer whether its process, its host or the network is killed, stopped or silent",
    "cluster:same-versions": "A node with other versions or modules of nodes than the server gets no task; errors name both",
    "cluster:token": "No task runs on a cluster that is open to others without a token",
    "cluster:secrets": "No secret is in the variables, arguments or files of a cluster; a process has its pipeline's alone",
    "cluster:drain": "A node that is drained gets no new calls, and its open pipes end there; pipelines run elsewhere",
    "cluster:no-orphan": "Seconds after the end of a server its cluster has none of its processes",
    "cluster:strangers": "A worker and a host take the connection of their server alone, whatever others send, however many",
    "tasks:silence-told": "A process of a task that was stopped or is stuck is told by `tools`, and ended by `terminate`",
    "tasks:memory-bounded": "With `--task-memory` a task that takes more, its children counted, is ended and says who did it",
    "tasks:failures-stay": "A failure behind a process stays that failure: code, message, hint and data",
    "tasks:no-orphan": "No process of a task, and none that its tools left behind, outlives the task or the server",
    "pipe:owner-only": "A pipe belongs to the connection that opened it; no id is ever reused",
    "pipe:lease:not-reaped": "A pipe in use is never reclaimed, however long the call",
    "pipe:late:failed": (
        "A `write` that is cancelled or late fails its pipe, also before the pipe hears of it; such a `close` frees it"
    ),
    "call:own-fate": (
        "The code of a call tells what became of this call: not of another one that was cancelled or late, and not of the "
        "server while its pipeline ends"
    ),
    "pool:limit:true": (
        "Open and borrowed pipes count against one limit, running sync calls against another; a leftover thread holds both"
    ),
    "pool:left-behind:unavailable": (
        "Where all places are held by calls that were answered and do not return, who needs one is `unavailable` with "
        "their names, not before a grace and not after the first one has returned"
    ),
    "partial:rest-runs": (
        "A pipeline that is loaded in part runs what can run; what needs a missing node is `unavailable` and says why"
    ),
    "partial:data:never-lost": "Data that would reach a missing node is refused, or fails its object with the reason",
    "sources:several:named": "In a pipeline with several sources an object names its own, or is refused with their names",
    # the process
    "stdio:stdout:frames-only": "Whatever tools, C code or children print, the peer reads frames only",
    "stdio:child:stdin-null": "A child of a tool reads EOF on stdin and cannot steal protocol bytes",
    "stdio:stderr:never-blocks": (
        "No amount of logging blocks the server; the client drains stderr and keeps the tail for crash errors"
    ),
    "life:parent-death:exits": "Gone within 2 s of EOF or parent death, even with a stuck tool",
    "life:sigterm:bounded": "SIGTERM or `shutdown`: every request answered, exit 0 before the drain limit + 1 s",
    "life:gil:killed": (
        "A tool that keeps the interpreter's lock outlives neither its client, nor the end of stdin, nor SIGTERM; "
        "while its client lives it may take its time"
    ),
    "life:tools:cannot-end-it": (
        "A tool that cancels all tasks, stops the loop, takes the standard streams away or returns from a fork "
        "ends nothing, and leaves no process behind"
    ),
    "life:crash:traced": "A crash of the interpreter leaves on stderr, or in the log, where its threads were",
    "start:cold:light": "No pygls, lsprotocol, websockets, node modules or entry-point scan before the first answer",
    "spawn:env-allow-list": (
        "Spawned servers get an allow-list of the environment plus `ROCKETRIDE_*` and `--env` names; "
        "tokens are never logged and are compared in constant time"
    ),
    "socket:owner-only": (
        "The socket of `--listen` is 0600, serves one user's processes, goes with its server, and takes no other's place"
    ),
    "socket:clients:apart": (
        "Clients of one socket share the engine and nothing else: one that floods, stalls, breaks or goes harms nobody"
    ),
    # the wire
    "wire:split:any-offset": "Every vector gives the same events whole, byte by byte, or coalesced",
    "wire:malformed:answered": (
        "Each malformed input is answered with a code and the connection survives, unless its length is unusable"
    ),
    "wire:oversize:skipped": "A body over the limit is skipped and answered; the next request works",
    "wire:bytes:one-rule": "Random bytes survive every transport and both dialects unchanged",
    "meta:passthrough": "`_meta` (trace context) crosses untouched and is visible to the tool",
    # calls
    "call:answer:exactly-one": "One answer per request over random interleavings of result, error, cancel, timeout, EOF",
    "call:unread:bounded": (
        "A client that does not read costs tens of MiB, whatever it sends, and delays nobody, also where its pipeline has a "
        "process of its own; its cancels and its shutdown are heard, and every request is answered once when it reads"
    ),
    "call:name:bounded": "A name of any length is refused before it is searched for, and only its beginning is repeated",
    "call:unknown-command:error": "Unknown commands and tools are errors with near matches; nothing succeeds by default",
    "cancel:reaches:both-kinds": "Async tools unwind, sync tools see it in the context; client timeouts send cancel",
    "cancel:next-call-unharmed": "200 cancel/call pairs at every await point: the next call always answers",
    "cancel:queued:never-runs": "A request cancelled before it starts has no side effect and one answer",
    "progress:ordered:bounded": "Monotonic, before the result, none after, flat memory with a stalled reader",
    "result:never-null": "NaN, Infinity and unknown objects in a result are failures with a path, never `null`",
    "error:failure:stays-failure": (
        "Stable codes; validation paths shown, bugs masked; no layer (subprocess, proxy, bridge) turns a failure into success"
    ),
    "result:content": "A caller that asks for content gets each block of a result as its tool gave it; others get its value",
    "result:endless:bounded": "A generator without end costs no more memory than a result may have, and is stopped there",
    # tools
    "tool:sync:loop-free": "A parked sync tool delays no other request",
    "call:no-thread:error": "Where the system gives no more threads, calls wait or fail, and the server reads on",
    "tool:async:block-named": (
        "An `async def` tool that blocks the loop for more than 100 ms is named with its stack, and counted"
    ),
    "tool:sync:others-answered": "Pings and cancels are answered within 100 ms while 32 `def` tools compute",
    "tool:schema:agrees": (
        "The published schema accepts exactly what the structurer accepts; no `$ref` unless recursive; context hidden"
    ),
    "tool:null:absent": (
        "`null` for an optional parameter or property is its absence, unless its own type takes null; "
        "input that fits pays nothing"
    ),
    "tool:formats:accepted": (
        "Tools in a vendor's format keep its documented rules, and a call accepts what their strict schemas accept"
    ),
    "tool:context:per-call": "Context is made per call and never stored on a node; 50 concurrent calls see their own",
    "tools:wrapped:both-hold": (
        "Fixed arguments leave the schema and cannot be given; narrower parameters hold besides the original ones"
    ),
    "references:names:one-to-one": "A tool's name anywhere and its function name mean one tool, and never two",
    "tools:allow-list:hides": "With `--tools` clients see and call those tools alone; others are as if they were not there",
    "references:whole-server": "A reference without a tool offers the tools of a whole server, in files and requests",
    "references:request:all-or-none": (
        "References of a request are resolved all or none; what is resolved belongs to its connection, and ends with it"
    ),
    "references:pipeline:wrapped": (
        "A reference of a pipeline is a tool of its own, called like every tool; the tool that it wraps stays as it is"
    ),
    "references:ask:caller-decides": (
        "A tool that needs a permit for each call runs only if its caller, or who wrote the object, is asked and allows it"
    ),
    "references:problems:all-at-once": "References are read whole, or refused with all problems, each at its JSON pointer",
    "names:unique-and-exportable": ("Duplicate names refused naming both owners; names of tools fit `^[a-zA-Z0-9_-]{1,64}$`"),
    "tools:dynamic:followed": (
        "Tools that are known only after setup, as those of servers outside, are listed, called and followed like others, "
        "and take no name away from a tool of the pipeline"
    ),
    "tools:unique-owner": (
        "With `unique`, as `client.database` and `rrext tool` ask, a tool that several nodes own runs on none of them unless "
        "one is named"
    ),
    "tools:availability-per-request": "Listing and calling agree; one session's switch never leaks into another",
    "events:call:one-end": (
        "Whoever subscribes hears once that a call started and once how it ended, also if it was refused, cancelled or late"
    ),
    "events:pipe:in-order": "A pipe's events come in order, from its opening to its closing, whatever ends it",
    "events:sink:harms-nobody": "A subscriber that raises gets no more events, and no call and no other subscriber notices",
    "events:secrets:redacted": "No value of a variable is in an event, not in arguments, results, messages or lanes",
    "trace:tree": (
        "A trace file has each call with all that it called, turns of agents, tokens, costs and failures; content if asked for"
    ),
    "trace:otel": (
        "With `--otel` calls, agents, turns and requests to models are spans in the trace of the caller; content if asked for"
    ),
    "trace:never-blocks": "A trace that is not written in time holds up no call, and says how many events it lost",
    "record:replay": "A recorded session, replayed to the same nodes, has no difference: pipes, progress, questions, cancels",
    "record:no-secret": "No value of a variable and no value under the name of a secret is in a recording",
    "record:never-blocks": "A recording that is not written in time holds up no call, and says how many lines it lost",
    "events:caller:own-call": (
        "A caller who asks for the events of its call, write or close gets those of it and of the calls within it, in order "
        "and before the answer; one that reads slowly delays nobody, and is told how many events it missed"
    ),
    "chat:events:as-they-come": (
        "`client.chat_events` gives what a pipeline does while it answers, in order, on asyncio, trio and blocking; leaving it "
        "cancels the question, and a slow reader costs bounded memory and is told what it missed"
    ),
    "chat:terminal:live": (
        "`rrext chat` at a terminal shows text as it comes and tools while they run, asks where one needs a permit, and Ctrl-C "
        "stops the question, never the chat; with `--at` too"
    ),
    "models:one-failure": (
        "A failure of a model has the code that its kind has, by whatever API, in `ask` and for agents; no text holds the key"
    ),
    "models:left:closed": "A caller that leaves a model's answer closes the request at once, and pays for no unread text",
    "sessions:own-user": (
        "A session of an agent is there for its user and space alone; its finished turns outlive a crash and follow each other"
    ),
    "spaces:members-only": (
        "A client of a network sees a space only as a member, by the pipeline's own list, asked anew at each call; a space "
        "that does not exist is answered alike"
    ),
    "memory:own-user": "Values of `memory_persistent` are for their user and space alone; in a file they outlive the server",
    "events:audit:line-per-call": "The audit log has one line for each call, also a refused one, and no text can forge a field",
    "testing:pair-public": "The same assertions pass on the in-memory pair, the byte pair and a spawned server",
    "variables:values:never-leave": (
        "No value of a variable is in a failure, a log, a name, a child's environment or a command line"
    ),
    "python:memory:threads": "A program's 64 threads fit its memory, and together they have no more than one",
    "python:lack:said": "A program that fails for what a sandbox has not is told so, with what to do instead",
    "python:result:ints": "An int of a program's result stays a number as far as readers of JSON have room for it",
    "python:packages:granted": "Programs read the packages that the operator offers and the pipeline allows, and no others",
    "python:walls": "No program runs before its walls were seen from outside, whichever engine of the sandbox made them",
    "python:memory:total": "Programs that run together use no more than a total of memory; the largest is killed for it",
    # the editor face
    "editor:view:clients-text": "After any edits, in every unit, the server's text is the client's",
    "editor:references:known": "References to tools are completed, explained, followed, renamed and checked like ids",
    "editor:answer:exactly-one": "Every request of an editor has one answer, whatever was sent before, between and after",
    "editor:problems:no-consequences": "One lost character of a good pipeline is at most three problems",
    "editor:untrusted:runs-nothing": "Without trust no process starts and no node's code is imported, and answers say why",
    "editor:cancel:reaches-tool": "The editor's cancel unwinds the tool in its process, and nothing is marked as failed",
    "editor:run:disturbs-nothing": "A tool that blocks, prints or crashes keeps back no answer and no later run",
    "editor:engine:ends-with-it": "No engine outlives its server, even a killed one; a server that ends leaves no result file",
    "editor:client:ends-with-it": "The language server ends when the process that the client named as its own has ended",
    "editor:fix:no-other-vendor": "A fix is preferred only for a typing mistake: another vendor or number is another name",
    "store:whole-files": "A stored file appears whole when it is closed; what a failed or vanished writer wrote is gone",
    "store:user-only": "No user of a server sees, lists, opens or changes the stored files of another one",
    "store:confined": "No path of the file store leads out of the user's directory, and no link is followed",
    "store:limits": "Quota, files, names and open files of the store have limits that their errors name",
    "foreign:known-not-offered": "A node of RocketRide that rrext lacks is named with its class type, and never replaced",
    "editor:fix:removes-problem": "Every fix that is offered removes its problem and leaves the rest of the text as it is",
    "editor:offer:stays-sound": "Whatever completion is accepted, a sound text stays sound and a broken one gets no worse",
    "editor:rename:keeps-graph": "A rename keeps the graph, and the rename back restores the text",
    "editor:format:blanks-alone": "Formatting keeps the meaning and every comment in its place, and formatting twice is once",
    "editor:workspace:not-left": "Links, completion of paths and checks of closed files read nothing outside of the workspace",
    "editor:secrets:never-shown": "No value of a variable and no secret is on a page, in an outline or in a picture",
    "picture:edges:followed": "Every edge of a picture can be followed by eye from its end to its other end",
    # data
    "data:driver:off-the-loop": (
        "Drivers, models and parsers are imported when a node is first used, and never on the event loop"
    ),
    "data:read-only:twice": (
        "What only reads is refused unless it is known to, and a SQL database refuses its writes without that, too"
    ),
    "data:gate:linear": "A megabyte of any SQL is judged in 100 ms and holds up other threads for at most 10 ms at a time",
    "data:statement:as-written": "The statement that a database gets is the caller's text, byte for byte, also in `query`",
    "data:functions:by-the-catalog": "`query` calls the server's own functions that its catalog says only read, and no other",
    "data:session:as-it-is": "Settings of a session that change answers are the server's own; values are converted instead",
    "data:session:owner-only": (
        "A transaction belongs to the connection that began it, and is rolled back when that is lost or it is idle"
    ),
    "data:rows:never-cut": "More rows than asked for are announced, more than allowed are an error that keeps nothing",
    "data:files:any-size": "Files of any size are asked in bounded memory, and a long statement tells how far it is",
    "data:cancel:in-the-database": "Cancel and deadline end the statement in the database, and hit no other call",
    "data:pool:in-turn": "Connections are never more than the pool's size, and who waits for one is served in turn",
    "data:call:light": "A call of a database from the shell imports its driver, and neither SQLAlchemy nor sqlglot",
    "data:sql:flat": "`rrext sql` writes CSV and JSON of any number of rows while it holds a few",
    "data:values:there-and-back": "What `query` answers of a SQL database goes back as a parameter: the same value and type",
    "data:functions:only-read": (
        "Functions that a reading statement of PostgreSQL reaches without naming them reach no file and no program"
    ),
    "data:secrets:never-shown": "Passwords and keys are in no answer, no log and no process of a node",
    "object:one-per-source": "A file is one object however it is sent, and two files are two, whatever their names",
    "send:links:stay-inside": "`rrext send` reads nothing outside of the folders and files that it is given",
    "sync:store:as-folder": "After a sync the stores hold what the folders hold, and what was done is said",
    "sync:unchanged:is-stored": "A sync says of no file that it is unchanged unless every store has that very version",
    "sync:delete:guarded": "A sync deletes what it sent of its folders, and nothing of a folder that may just not be there",
    "sync:kill:goes-on": "A sync that is killed at any moment and run again ends as one that was not",
    "vector:owner:apart": "Each user in each space has a content of its own in a store, in each tool and lane",
    "vector:space:shared": 'With `shared: "space"` the content of a space is that of all its users, and of no one else',
    "vector:owner:partition": "Nothing that another owner stores changes a score, an order or the work of an embedded search",
    "vector:filter:metadata": "A search with a filter by metadata finds the best of what fits, in each mode, on each store",
    "vector:answered:is-kept": "What a vector store answered outlives its killed process",
    "vector:request:whole": "A request of a vector store that is killed at any step is done as a whole or was never begun",
    "vector:folder:in-turns": "Processes that use one folder of a vector store take turns, and all are answered",
    "vector:damage:left-alone": "A damaged or strange folder is refused, and nothing in it is changed",
    "graph:file:in-turns": "Processes that use one file of an embedded graph take turns, and all are answered",
    "graph:engine:ends-alone": "What ends the engine of an embedded graph ends the call that did it, and never the server",
    "graph:engine:stuck-alone": (
        "A statement that nothing stops is answered in its time, and those beside it are answered as if it were not there"
    ),
    "duckdb:engine:stuck-alone": (
        "A statement that DuckDB does not stop is answered in its time, and reads beside it are answered all the same"
    ),
    "duckdb:attached-databases": (
        "A query of DuckDB reads tables of attached servers exactly, writes nothing there, and contacts no server that it does "
        "not name"
    ),
    "duckdb:memory:kept": "A reading call that never stops takes no DuckDB database in memory with it",
    "duckdb:memory:bounded": "No statement brings DuckDB's process beyond a limit of memory, which the system enforces",
    "document:reading:disturbs-nothing": (
        "A document that is hostile, endless or broken fails alone, while others are answered"
    ),
    "document:split:any-cut": "Chunks do not depend on how the text arrived",
    "document:split:range": "A chunk is the characters of its object's text from `start` to `end`",
    "schema:agrees-with-check": "The JSON Schema of pipelines accepts every pipeline that the check accepts",
    "check:probe:harmless": "`rrext check` finds what this machine lacks; it connects to nothing, makes and starts nothing",
    "check:secrets:not-repeated": "A literal secret of a file is reported, and no message repeats it",
    "check:fix:as-in-editors": (
        "`rrext check --fix` makes the edits of an editor's fix-all, and writes a file whole or not at all"
    ),
    "faces:same-tools": (
        "SQL, Python, wrapped tools, tools of MCP servers and of Composio are listed, answer and fail the same on every face"
    ),
    "secrets:never-leave": (
        "No secret of a connection is in an answer, an event, a log, a trace, a file, or the environment of a child; not even "
        "in the result of a server outside that repeats it"
    ),
    "secrets:one-rule": "Connections, pipelines, editors and redactors agree on which names and values are secret",
    "secrets:spellings": "A secret is found in each spelling of it, wherever in a text it begins and wherever a stream is cut",
    "secrets:private-files": (
        "Keys, tokens, keys of TLS, connections and secrets in files are read by one rule: a regular file of its owner alone, "
        "whole, within a limit that the refusal names"
    ),
    "http-request:allowed-alone": (
        "`tool_http_request` asks no address, also none of a redirect, that no pattern allows, and by no method that is off"
    ),
    "http-request:secrets-stay": (
        "Secrets that a caller of `tool_http_request` gives are in no failure and no log, and go to one server alone"
    ),
    "http-request:public-alone": (
        "`http_request` and `fetch_web_page` connect to public addresses alone unless the operator says otherwise, a remote "
        "pipeline always"
    ),
    "connections:file-0600": "A file of connections, or of one secret, that others may use or another user owns is refused",
    "connections:problems": "A problem of a file of connections is told with its line, and makes only its connection invalid",
    "connections:not-from-strangers": "A pipeline of a caller who is not trusted may name connections only if they are shared",
    "connections:authorization": (
        "The authorization of a caller reaches only servers whose connection forwards it, and is in no failure, event or log"
    ),
    "mcp:both-eras": "A host of each version of the Model Context Protocol lists and calls tools, gets progress, and cancels",
    "provider:http": "Each usable operation of an OpenAPI document is a tool, called by one request that is never repeated",
    "provider:http:keys": "The keys of a connection go with each request to its server, to no other one, and into no result",
    "provider:composio": "The actions of an integration are tools, executed for the account of their connection",
    "provider:composio:accounts": "Unknown, inactive and invalid accounts are three errors before any action is executed",
    "mcp:one-answer": (
        "Every line of a host is answered once, or asks for nothing, and no line ends the connection; a host that has closed "
        "is told nothing more"
    ),
    "mcp:passes-on": "A host gets the content that a server outside gave, block by block as it came, also of a failure",
    "mcp:list-changed": "A host is told when the list of tools changes, by itself after a handshake, else by a subscription",
    "mcp:as-tool": "A pipeline that is a tool gives the result of its object, and fails as its object fails",
    "questions:caller-answers": "What a tool asks the user goes to the caller unchanged, and the answer goes to the tool",
    "mcp:questions": (
        "What a server outside asks during a call goes to the user of that call's caller, in both eras, and to nobody else"
    ),
    "mcp:permits": "The user of a host is asked before a tool that needs a permit runs, and only a clear yes lets it run",
    "mcp:permits:once": (
        "An answer that a host repeats with a call permits one call, of its process, user, tool and arguments, for a short time"
    ),
    "mcp:offers": "Prompts and files that pipelines offer are listed and read by hosts, and nothing outside of them",
    "mcp:http:same-answers": "Over HTTP a tool answers as on stdio",
    "mcp:http:access": "A request over HTTP without a known host, origin or token is not answered, and no token is repeated",
    "mcp:http:ends": "At a signal the calls over HTTP finish or fail, and all are answered",
    "mcp-server:call:once": (
        "A call of a tool of an external MCP server is sent once; where the server ends before its answer, the error says how"
    ),
    "mcp-server:hostile:alone": (
        "What an external MCP server sends that is malformed, endless or huge fails its call or its tool alone, without "
        "memory for it, and holds up no other call"
    ),
    "mcp-server:no-orphan": "No external MCP server outlives rrext, and none gets variables that are not in its connection",
    "monitor:events": (
        "Monitors tell tasks, statuses, messages, output, details and the flow of traced objects in RocketRide's form, in "
        "order; a slow reader is told how many events it missed, and holds up nobody"
    ),
    "monitor:users:apart": "No user learns of the objects, payloads, messages and output of another by a monitor or a status",
    "monitor:traces": (
        "A pipeline is traced in the detail that its level names, at no cost for others; a trace has no values of variables, "
        "and no payload over its limit"
    ),
    "log:own-runs": "A user reads the log of its own traced runs, each event once and in order, and of no other's",
    "profile:trusted-only": "A trusted client learns what uses the processor; others learn nothing of it and start nothing",
    "ws:strangers": (
        "Who shows a key gets in, and life signs are answered, however many others of the same address or of any wait in "
        "silence or guess keys"
    ),
    "ws:access": (
        "A client on a network without a known key, host or origin gets no answer that needs one; its messages, its attempts "
        "and its time are few, and no key is repeated"
    ),
    "ws:users:apart": "Users on a network see, list, join and guess nothing of each other's pipelines, pipes and names",
    "ws:clients:not-trusted": (
        "A pipeline of a network client has only its own variables, no path outside of the root, no private address and no "
        "permission that it gives itself, unless the operator trusts the clients"
    ),
    "ws:messages": "Every message of a WebSocket is answered once, also malformed and large ones, and no client harms another",
    "ws:load": "Of many clients of a network, also hostile ones, none harms another, and each request is answered",
    "wire:no-memory": "A message for which there is no memory is refused by its id, and the next one is read",
    "ws:memory": "What a client left unread or unfinished is free at its end, and the data of a failed call at its answer",
    "ws:user:memory": (
        "What all connections of a user keep is limited, and shared fairly; one unfinished message goes on, and one without "
        "room is told the limit"
    ),
    "ws:http": "Over HTTP a body goes through a pipeline for its public key alone, and a failure is no success",
    "ws:page": (
        "The status page shows a user live what is theirs and nothing of others, loads nothing from elsewhere, runs no text of "
        "a pipeline, and takes a key in a header alone; only the page itself terminates"
    ),
    "ws:workbench": (
        "The workbench of the status page makes a form of any schema, sends what was filled in exactly, and calls tools as any "
        "client of its user does; what schemas and results say is text"
    ),
    "ws:reload": (
        "Keys, tokens and certificates are read again at a hang-up signal and when they change: whose key is gone is cut off, "
        "files that cannot be used change nothing; a server that ends says so until its last answer"
    ),
    "ws:metrics": (
        "Metrics of users and pipelines are for the operator's key alone, exact, and bounded whatever clients choose as names; "
        "for all others they are sums"
    ),
    "ws:operating": "The unit, the container, the proxies and all lines of the page for operators work as they stand",
    "ws:client": "rrext's clients and commands work over a WebSocket as over a socket, also with keys and TLS",
    "typescript:same-answers": "The client for TypeScript gives every answer as it is, over stdio, Unix sockets and WebSockets",
    "typescript:calls-end": "A call of the client for TypeScript ends by its answer, an abort, a deadline or the server's end",
    "ws:rocketride": "The published RocketRide client and its commands work unmodified, as far as protocol.md says",
    "kill:answers-whole": "Each answer that a killed server wrote before is received whole, and the other calls fail",
    "kill:workers": "The calls of a killed worker fail and say so, no other pipeline notices, and nothing of it is left",
    "kill:stores": "What an embedded store answered outlives its killed engine and server, however much its log has filled",
    "kill:nothing-left": "A client that is killed leaves no pipe and no call, a killed server no process",
    "knowledge:analysis": (
        "An analysis reads one document alone, as it was at the beginning; citations stand in the text; a cancel ends it"
    ),
    "knowledge:scope": (
        "A call reads and changes the documents of its space alone, or all that its user may read; what others have is "
        "answered like what never was"
    ),
    "knowledge:tables": (
        "Documents are asked as typed tables in which no value changes, by statements that reach nothing else and end in time"
    ),
    "project:untrusted:runs-nothing": (
        "A project file that was found, and not named, runs, starts and opens nothing until `rrext trust`, and after a change"
    ),
    "project:own-file": "A project file is used only if its user owns it and its folder, and nobody else can write them",
    "project:no-secrets": "A secret in a project file is a problem, which names its setting and has nothing of its value",
    "init:templates": "Each template of `rrext init` runs at once, offline, by the lines that the command prints",
    "completion:runs-nothing": "A key that completes runs no code of a pipeline or of its nodes",
}
