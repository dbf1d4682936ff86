"""Jobs over a workspace: one file a job, each with a typed ``…Job`` and a function ``run`` that takes one."""
