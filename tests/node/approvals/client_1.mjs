// The official TypeScript client, version 1, which speaks the older era alone: npm `@modelcontextprotocol/sdk`.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitationCompleteNotificationSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { serve } from './session.mjs';

await serve({
  Transport: StreamableHTTPClientTransport,
  client: (_era, capabilities) => new Client({ name: 'typescript-1', version: '1' }, { capabilities }),
  onQuestion: (client, ask) => client.setRequestHandler(ElicitRequestSchema, ask),
  onComplete: (client, heard) => client.setNotificationHandler(ElicitationCompleteNotificationSchema, heard),
  call: (client, call, options) => client.callTool(call, undefined, options),
});
