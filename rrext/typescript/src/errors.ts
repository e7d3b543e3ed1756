/** The codes of rrext itself, of the server's answers and then of this client; authors of tools have codes of their own. */
export type ErrorCode =
  | 'parse_error' | 'invalid_request' | 'unknown_command' | 'invalid_arguments' | 'internal' | 'cancelled' | 'tool_not_found'
  | 'node_not_found' | 'provider_not_found' | 'connection_unknown' | 'pipe_not_open' | 'pipe_failed' | 'pipe_expired'
  | 'tool_failed' | 'tool_timeout' | 'unavailable' | 'connection_inactive' | 'connection_invalid' | 'invalid_pipeline'
  | 'frame_too_large' | 'result_too_large' | 'too_many_requests' | 'not_authenticated' | 'shutting_down' | 'task_lost'
  | 'TASK_NOT_REGISTERED' | 'TASK_AMBIGUOUS' | 'TASK_ALREADY_RUNNING' | 'not_connected' | 'server_exited' | 'usage'
  | (string & {});

/** A JSON object of the protocol. */
export type Body = Record<string, any>;

/** A failure that the server or this client reports: `hint` says what to do next, `data` is for programs. */
export class RrextError extends Error {
  override readonly name = 'RrextError';
  /** What the pipeline had produced, if an object failed. */
  declare result?: Body;

  constructor(readonly code: ErrorCode, message: string, readonly hint?: string, readonly data: Body = {}, cause?: Error) {
    super(message, cause && { cause });
  }
}
