//! Parse, plan and lower a query to a flow model.
